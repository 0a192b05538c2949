//! Who may do what, on one core: by the tokens in force, and the anonymous tenant.

use crate::tokens::Tokens;
use felix_core::auth::{Grants, Permissions, certificate_names_subject};
use felix_core::{Auth, Credentials, Principal, Rejection, Timestamp};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Lives on one core.
#[derive(Debug)]
pub(crate) struct TokenAuth {
    anonymous: Option<Rc<str>>,
    bind_subject: bool,
    tokens: RefCell<Option<Arc<Tokens>>>,
}

impl TokenAuth {
    /// `anonymous` is the tenant of connections without credentials. With `bind_subject` a token
    /// counts only together with a certificate that names its subject.
    pub(crate) fn new(
        anonymous: Option<Rc<str>>,
        bind_subject: bool,
        tokens: Option<Arc<Tokens>>,
    ) -> Self {
        Self {
            anonymous,
            bind_subject,
            tokens: RefCell::new(tokens),
        }
    }

    /// Puts other tokens in force, for connections that authenticate from now on.
    pub(crate) fn replace(&self, tokens: Arc<Tokens>) {
        *self.tokens.borrow_mut() = Some(tokens);
    }
}

impl Auth for TokenAuth {
    fn anonymous(&self) -> Option<Principal> {
        self.anonymous.clone().map(Principal::anonymous)
    }

    fn authenticate(
        &self,
        credentials: Credentials<'_>,
        now: Timestamp,
    ) -> Result<Principal, Rejection> {
        let Credentials {
            tenant,
            token,
            certificate,
        } = credentials;
        let tokens = self.tokens.borrow();
        let tokens = tokens.as_ref().ok_or(Rejection::NoTokens)?;
        let issued = tokens.find(tenant, token, now)?;
        let is_named = |names| certificate_names_subject(names, &issued.subject);
        if self.bind_subject && !certificate.is_some_and(is_named) {
            return Err(Rejection::Certificate);
        }
        Ok(Principal {
            tenant: issued.tenant.as_str().into(),
            subject: Some(issued.subject.as_str().into()),
            permissions: Permissions::Granted(Grants::of(&issued.grants)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Digest, Issued, token};
    use felix_core::CertificateNames;
    use felix_core::auth::{Action, Grant, GrantScope};

    fn tokens(random: u8) -> Arc<Tokens> {
        let mut tokens = Tokens::default();
        let issued = Issued {
            tenant: "t1".into(),
            subject: "checkout".into(),
            expires: None,
            grants: Arc::from([Grant {
                action: Action::Publish,
                scope: GrantScope::Tenant,
            }]),
        };
        assert!(tokens.add(Digest::of(&token([random; 32])), issued));
        Arc::new(tokens)
    }

    fn shown<'a>(token: &'a str, certificate: Option<&'a CertificateNames>) -> Credentials<'a> {
        Credentials {
            tenant: "t1",
            token,
            certificate,
        }
    }

    #[test]
    fn a_token_brings_its_tenant_subject_and_grants() {
        let tokens = tokens(1);
        let auth = TokenAuth::new(None, false, Some(Arc::clone(&tokens)));
        assert_eq!(auth.anonymous(), None);
        let token = token([1; 32]);
        let principal = auth
            .authenticate(shown(&token, None), Timestamp(0))
            .unwrap();
        assert_eq!(
            (&*principal.tenant, principal.subject.as_deref()),
            ("t1", Some("checkout"))
        );
        let Permissions::Granted(grants) = principal.permissions else {
            panic!("a token grants what it says")
        };
        assert_eq!(grants.all().len(), 1);
        let issued = tokens.find("t1", &token, Timestamp(0)).unwrap();
        assert!(
            std::ptr::eq(grants.all(), &raw const *issued.grants),
            "none is copied"
        );
    }

    #[test]
    fn the_certificate_has_to_name_the_subject_where_that_is_asked_for() {
        let auth = TokenAuth::new(None, true, Some(tokens(1)));
        let token = token([1; 32]);
        let of = |uri: &str| CertificateNames {
            uris: vec![uri.into()],
            ..CertificateNames::default()
        };
        let (own, other) = (of("felix:principal:checkout"), of("felix:principal:other"));
        for (certificate, accepted) in [(None, false), (Some(&other), false), (Some(&own), true)] {
            let outcome = auth.authenticate(shown(&token, certificate), Timestamp(0));
            assert_eq!(outcome.is_ok(), accepted, "{certificate:?}");
            let words = outcome.map_err(|rejection| rejection.to_string());
            let expected = "the client certificate is not issued to the token's subject";
            assert!(accepted || words == Err(expected.to_owned()));
        }
    }

    #[test]
    fn other_tokens_count_from_when_they_are_put_in_force() {
        let auth = TokenAuth::new(Some("dev".into()), false, None);
        assert_eq!(&*auth.anonymous().unwrap().tenant, "dev");
        let (first, second) = (token([1; 32]), token([2; 32]));
        let outcome = |token| {
            let outcome = auth.authenticate(shown(token, None), Timestamp(0));
            outcome.map(|_| ())
        };
        assert_eq!(outcome(&first), Err(Rejection::NoTokens));
        auth.replace(tokens(1));
        assert_eq!(outcome(&first), Ok(()));
        auth.replace(tokens(2));
        assert_eq!(outcome(&first), Err(Rejection::Unknown));
        assert_eq!(outcome(&second), Ok(()));
    }
}
