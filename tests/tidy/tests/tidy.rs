//! The rules of `felix-tidy`, over this repository.

use felix_tidy::source::Source;
use felix_tidy::{
    Fault, allowed, ambient, arrows, evidence, functions, leftovers, length, links, privacy, seams,
    sharing, tree,
};

fn files() -> Vec<tree::File> {
    let files = tree::files(&tree::root()).expect("the repository can be read");
    assert!(
        files.iter().any(|file| file.path == "core/src/lib.rs"),
        "this is the repository"
    );
    files
}

fn sources() -> Vec<Source> {
    Source::of(&files())
}

fn assert_tidy(faults: &[Fault]) {
    let list: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert!(
        list.is_empty(),
        "{} faults:\n{}",
        list.len(),
        list.join("\n")
    );
}

#[test]
fn crates_depend_only_on_what_the_table_of_arrows_allows() {
    let files = files();
    let manifests = files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        Some((folder, file))
    });
    let faults: Vec<Fault> = manifests
        .clone()
        .flat_map(|(folder, file)| arrows::check(folder, &file.text))
        .collect();
    assert!(manifests.count() >= 7, "the crates were found");
    assert_tidy(&faults);
}

#[test]
fn glommio_stays_behind_its_seams() {
    assert_tidy(&seams::check(&sources(), allowed::GLOMMIO));
}

#[test]
fn the_data_path_shares_nothing_that_is_not_listed() {
    assert_tidy(&sharing::check(&sources(), allowed::SHARED));
}

#[test]
fn only_the_broker_reads_clocks_and_environment() {
    assert_tidy(&ambient::check(&sources(), allowed::AMBIENT));
}

#[test]
fn nothing_unfinished_is_left_over() {
    assert_tidy(&leftovers::check(&sources()));
}

#[test]
fn functions_fit_on_a_screen() {
    assert_tidy(&functions::check(&sources(), allowed::LONG_FUNCTIONS));
}

#[test]
fn files_are_about_one_noun() {
    assert_tidy(&length::check(&sources(), allowed::LONG));
}

#[test]
fn links_in_documents_lead_somewhere() {
    assert_tidy(&links::check(&files()));
}

#[test]
fn no_text_names_a_machine_or_a_registry() {
    assert_tidy(&privacy::check(&files()));
}

#[test]
fn every_claim_about_a_projection_is_shown_by_a_test_that_is_there() {
    let files = files();
    assert!(files.iter().any(|file| file.path == evidence::DOCUMENT));
    assert_tidy(&evidence::check(&files, &Source::of(&files)));
}
