//! Tokens from their file to the cores, and from nowhere to the one who asks for a new one.

use crate::core_task::Message;
use crate::mailbox::Outside;
use crate::reload::{Reloadable, Stamps, Subject};
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
/// A sentence: that is no tenant and subject, or there is no randomness.
pub(crate) fn print_new_token(whose: &str) -> Result<(), String> {
    let NewToken { token, entry } = token_file::new_token(whose)?;
    // Whoever closed the pipe wants neither.
    drop(write!(io::stdout(), "{entry}"));
    drop(writeln!(
        io::stderr(),
        "the token, which is shown only now; it is the SASL password, and the tenant is the \
         username:\n{token}"
    ));
    Ok(())
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
        Reloadable {
            subject: Subject::Tokens,
            paths: vec![path.clone()],
            read: self.read,
            reload: Box::new(move || {
                let tokens = Arc::new(token_file::read(&path)?);
                let count = tokens.count();
                for core in &cores {
                    core.send(Message::Tokens(Arc::clone(&tokens)));
                }
                Ok(format!("{count} tokens"))
            }),
        }
    }
}
