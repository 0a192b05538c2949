//! Tokens from their file to the cores, and from nowhere to the one who asks for a new one.

use crate::core_task::Message;
use crate::mailbox::Outside;
use crate::reload::{Reloadable, Reloaded, Stamps, Subject};
use crate::settings::Settings;
use crate::token_file::{self, NewToken};
use crate::tokens::Tokens;
use std::io::{self, Write};
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;

/// Makes a token for `<tenant>/<subject>`. The entry for the file and the token go different ways, so
/// that the one can be appended to the file and the other never is.
///
/// # Errors
/// A sentence: that is no tenant and subject, there is no randomness, or the entry or the token
/// cannot be written.
pub(crate) fn print_new_token(whose: &str) -> Result<(), String> {
    let new = token_file::new_token(whose)?;
    hand_out(&new, &mut io::stdout(), &mut io::stderr())
}

/// The token only once its entry is written: nobody is to use one that no file lists.
fn hand_out(
    new: &NewToken,
    entries: &mut impl Write,
    tokens: &mut impl Write,
) -> Result<(), String> {
    let NewToken {
        tenant,
        subject,
        token,
        entry,
    } = new;
    let written = entries.write_all(entry.as_bytes());
    written.and_then(|()| entries.flush()).map_err(|error| {
        format!(
            "the entry for the token file cannot be written to standard output: {error}; the token \
             is not shown, and what is written of its entry is to be removed"
        )
    })?;
    let told = writeln!(
        tokens,
        "the token of {tenant}/{subject}, which is shown only now; it is the SASL password, and the \
         tenant, {tenant}, is the username:\n{token}"
    );
    told.map_err(|error| {
        format!(
            "the token cannot be shown on standard error: {error}; its entry is of no use, and is \
             to be removed"
        )
    })
}

/// The token file as a start has read it.
#[derive(Debug)]
pub(crate) struct OpenTokens {
    path: PathBuf,
    tokens: Arc<Tokens>,
    read: Stamps,
}

impl OpenTokens {
    /// Reads it, if there is one.
    ///
    /// # Errors
    /// A sentence with the file and the line.
    pub(crate) fn open(settings: &Settings) -> Result<Option<Self>, String> {
        let kafka = settings.kafka.as_ref();
        let Some(path) = kafka.and_then(|kafka| kafka.token_file.clone()) else {
            return Ok(None);
        };
        let read = Stamps::of(slice::from_ref(&path));
        let tokens = Arc::new(token_file::read(&path)?);
        tracing::info!(path = %path.display(), tokens = tokens.count(), "tokens");
        Ok(Some(Self { path, tokens, read }))
    }

    /// What they are.
    pub(crate) fn tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens)
    }

    /// Has them read anew while the broker runs, and told to these cores.
    pub(crate) fn reloadable(self, cores: Vec<Outside<Message>>) -> Reloadable {
        let path = self.path;
        // Whoever drops the last reference frees all of them, which takes long where there are many.
        // So one is kept here, and none that a core drops is the last.
        let mut kept = vec![self.tokens];
        Reloadable {
            subject: Subject::Tokens,
            paths: vec![path.clone()],
            read: self.read,
            reload: Box::new(move || {
                // Those that every core has replaced.
                kept.retain(|tokens| Arc::strong_count(tokens) > 1);
                let tokens = Arc::new(token_file::read(&path)?);
                kept.push(Arc::clone(&tokens));
                let count = tokens.count();
                for core in &cores {
                    core.send(Message::Tokens(Arc::clone(&tokens)));
                }
                Ok(Reloaded {
                    news: format!("{count} tokens"),
                    rest: None,
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::{Inside, mailbox};
    use futures_util::FutureExt;
    use std::fs::{self, File};
    use std::io::BufWriter;
    use std::sync::Weak;

    fn told(mail: &mut Inside<Message>) -> Arc<Tokens> {
        match mail.next().now_or_never() {
            Some(Some(Message::Tokens(tokens))) => tokens,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tokens_are_freed_where_they_are_read_and_not_by_the_last_core_that_replaces_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.toml");
        fs::write(&path, "").unwrap();
        let read = Stamps::of(slice::from_ref(&path));
        let tokens = Arc::new(token_file::read(&path).unwrap());
        let (core, mut mail) = mailbox();
        let open = OpenTokens { path, tokens, read };
        let mut in_force = open.tokens();
        let mut reloadable = open.reloadable(vec![core]);
        let mut before: Option<Weak<Tokens>> = None;
        for _ in 0..3 {
            let replaced = Arc::downgrade(&in_force);
            assert_eq!((reloadable.reload)().unwrap().news, "0 tokens");
            assert!(before.is_none_or(|tokens| tokens.upgrade().is_none()));
            in_force = told(&mut mail);
            assert!(replaced.upgrade().is_some(), "the core has dropped its own");
            before = Some(replaced);
        }
    }

    #[test]
    fn a_token_whose_entry_is_not_written_is_not_shown() {
        let new = token_file::new_token("t1/checkout").unwrap();
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let mut shown = Vec::new();
        let fault = hand_out(&new, &mut full(), &mut shown).unwrap_err();
        assert!(fault.contains("standard output"), "{fault}");
        // What notices it only when the last of it is to go.
        hand_out(&new, &mut BufWriter::new(full()), &mut shown).unwrap_err();
        assert!(shown.is_empty());
        let mut entries = Vec::new();
        let fault = hand_out(&new, &mut entries, &mut full()).unwrap_err();
        assert!(fault.contains("standard error"), "{fault}");
        hand_out(&new, &mut entries, &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(shown.lines().last(), Some(&*new.token));
        for told in [
            "the token of t1/checkout, ",
            "the tenant, t1, is the username",
        ] {
            assert!(shown.contains(told), "whose it is: {shown}");
        }
    }
}
