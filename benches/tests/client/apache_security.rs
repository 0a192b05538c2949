//! Whom Apache Kafka lets in, and what is said to the others.

use crate::security::{none, sasl, tls};
use crate::shared::shared;
use felix_bench::client::{Admin, Identity, Security, TlsConfig, Trust};
use felix_tests::apache::USERS;
use felix_tests::within;
use std::time::Duration;

/// Whatever fails, fails before a person would give up.
const SOON: Duration = Duration::from_secs(15);

/// The sentence with which a connection to a broker fails.
fn refused(address: &str, security: &Security) -> String {
    let connect =
        || Admin::connect(address, security).map(|mut admin| admin.topic("any", 1, false, 1));
    match within(SOON, connect) {
        Ok(Ok(topic)) => panic!("it should have been refused: {topic:?}"),
        Ok(Err(problem)) | Err(problem) => problem.to_string(),
    }
}

#[test]
fn a_broker_that_somebody_else_vouches_for_is_refused() {
    let apache = shared();
    let trust = Trust::File(apache.other_authority().to_owned());
    let said = refused(&apache.tls(), &tls(&trust));
    assert!(said.contains("certificate that does not hold"), "{said}");
    assert!(said.contains("UnknownIssuer"), "{said}");
}

#[test]
fn a_broker_that_this_machine_does_not_know_is_refused() {
    let said = match TlsConfig::new(&Trust::System, None) {
        Ok(tls) => {
            let security = Security {
                tls: Some(tls),
                sasl: None,
            };
            refused(&shared().tls(), &security)
        }
        // On a machine that knows nobody.
        Err(problem) => problem.to_string(),
    };
    let is_told = said.contains("UnknownIssuer") || said.contains("package ca-certificates");
    assert!(is_told, "{said}");
}

#[test]
fn a_broker_is_refused_under_a_name_that_is_not_in_its_certificate() {
    let apache = shared();
    let trust = Trust::File(apache.authority().to_owned());
    let by_name = apache.tls().replace("127.0.0.1", "localhost");
    let said = refused(&by_name, &tls(&trust));
    assert!(said.contains("not valid for name \"localhost\""), "{said}");
    assert!(said.contains("a name that is in it"), "{said}");
    // Whoever checks nothing does not mind.
    let security = tls(&Trust::Anybody);
    Admin::connect(&by_name, &security)
        .unwrap()
        .check_apis()
        .unwrap();
}

#[test]
fn a_client_without_the_certificate_that_is_asked_for_is_told_so() {
    let apache = shared();
    let trust = Trust::File(apache.authority().to_owned());
    let said = refused(&apache.mutual_tls(), &tls(&trust));
    assert!(said.contains("client certificate"), "{said}");
}

#[test]
fn a_wrong_password_is_told_with_the_user() {
    let (user, _) = USERS[0];
    let said = refused(&shared().sasl(), &sasl(user, "guessed"));
    assert!(said.contains(&format!("user `{user}`")), "{said}");
    assert!(said.contains("SASL_AUTHENTICATION_FAILED"), "{said}");
    assert!(!said.contains("guessed"), "{said}");
}

#[test]
fn a_listener_of_another_kind_is_told_by_what_it_may_want() {
    let apache = shared();
    let said = refused(&apache.tls(), &none());
    assert!(said.contains("TLS"), "{said}");
    let said = refused(&apache.plain(), &tls(&Trust::Anybody));
    assert!(said.contains("TLS"), "{said}");
    let said = refused(&apache.sasl(), &none());
    assert!(said.contains("user and password"), "{said}");
    let (user, password) = USERS[1];
    let said = refused(&apache.plain(), &sasl(user, password));
    assert!(said.contains("SASL") || said.contains("Sasl"), "{said}");
}

#[test]
fn files_that_are_no_certificates_are_told_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing of the kind").unwrap();
    for path in [missing, empty] {
        let said = TlsConfig::new(&Trust::File(path.clone()), None).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(&path.display().to_string()), "{said}");
        let identity = Identity {
            certificate: path.clone(),
            key: path.clone(),
        };
        let said = TlsConfig::new(&Trust::Anybody, Some(&identity)).unwrap_err();
        let said = said.to_string();
        assert!(said.contains(&path.display().to_string()), "{said}");
    }
    let apache = shared();
    let (certificate, _) = apache.client();
    let identity = Identity {
        certificate: certificate.to_owned(),
        key: certificate.to_owned(),
    };
    let said = TlsConfig::new(&Trust::Anybody, Some(&identity)).unwrap_err();
    assert!(said.to_string().contains("private key"), "{said}");
}

#[test]
fn nobody_there_is_told_with_the_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    drop(taken);
    let said = refused(&address, &none());
    assert!(
        said.contains(&format!("no connection to {address}")),
        "{said}"
    );
    // Too long for a name, so that nobody on the network is asked for it.
    let nowhere = format!("{}:9092", "x".repeat(64));
    let said = refused(&nowhere, &none());
    assert!(
        said.contains(&nowhere) && said.contains("not known"),
        "{said}"
    );
}
