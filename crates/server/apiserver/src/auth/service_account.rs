//! Tokens of service accounts: signed by a key of ours (ES256), for an audience, for a while.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::User;

/// Who signs, and the audience of tokens that name none.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Before the name and namespace of a service account in its user name.
pub(crate) const PREFIX: &str = "system:serviceaccount:";
/// Longer texts are no tokens of ours.
const LONGEST: usize = 16 << 10;

/// What a token says. That it is ours and still valid has been checked; that its account exists has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) id: String,
    pub(crate) audiences: Vec<String>,
    /// In seconds since 1970.
    pub(crate) issued: i64,
    pub(crate) expires: i64,
}

/// The key that signs them.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    public: Vec<u8>,
    id: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.id)
    }
}

impl Signer {
    /// With this key, which must be one of ECDSA on P-256.
    pub(crate) fn new(key: &KeyPair) -> Result<Self, String> {
        let random = SystemRandom::new();
        let signing = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der(), &random)
            .map_err(|error| error.to_string())?;
        let public = key.public_key_raw().to_vec();
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &public));
        Ok(Self { key: signing, public, id })
    }

    /// With a key that is kept nowhere.
    pub(crate) fn ephemeral() -> Result<Self, String> {
        Self::new(&KeyPair::generate().map_err(|error| error.to_string())?)
    }

    /// A token that says this.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, String> {
        let Claims { namespace, name, uid, id, audiences, issued, expires } = claims;
        let header = json!({"alg": "ES256", "kid": self.id});
        let body = json!({
            "aud": audiences, "exp": expires, "iat": issued, "iss": ISSUER, "jti": id,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
            "nbf": issued, "sub": format!("{PREFIX}{namespace}:{name}"),
        });
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&body));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|error| error.to_string())?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says; `None` if it is not ours, or not valid now. Only our own algorithm counts, whatever the
    /// token says about it.
    pub(crate) fn verify(&self, token: &str, now: i64) -> Option<Claims> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, body) = signed.split_once('.').filter(|(_, body)| !body.contains('.'))?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public);
        key.verify(signed.as_bytes(), &signature).ok()?;
        let body: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let (issued, expires) = (body["nbf"].as_i64()?, body["exp"].as_i64()?);
        if body["iss"] != ISSUER || now < issued || now >= expires {
            return None;
        }
        let account = &body["kubernetes.io"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Claims {
            namespace: text(&account["namespace"])?,
            name: text(&account["serviceaccount"]["name"])?,
            uid: text(&account["serviceaccount"]["uid"])?,
            id: text(&body["jti"])?,
            audiences: body["aud"].as_array()?.iter().filter_map(text).collect(),
            issued,
            expires,
        })
    }
}

impl Claims {
    /// The user that the account is.
    pub(crate) fn user(&self) -> User {
        let credential = "authentication.kubernetes.io/credential-id".to_owned();
        User {
            uid: self.uid.clone(),
            extra: [(credential, vec![format!("JTI={}", self.id)])].into(),
            ..account(&self.namespace, &self.name)
        }
    }
}

/// A service account as a user.
pub(crate) fn account(namespace: &str, name: &str) -> User {
    let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")];
    User::new(format!("{PREFIX}{namespace}:{name}"), &groups)
}

/// Namespace and name of the service account that a user name means.
pub(crate) fn split(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(PREFIX)?.split_once(':').filter(|(namespace, name)| {
        concert_api::names::label_faults(namespace).is_empty() && concert_api::names::subdomain_faults(name).is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            namespace: "default".into(),
            name: "sa".into(),
            uid: "u".into(),
            id: "j".into(),
            audiences: vec![ISSUER.into()],
            issued: 100,
            expires: 200,
        }
    }

    #[test]
    fn a_token_is_good_for_its_time_and_from_its_signer_only() {
        let signer = Signer::ephemeral().unwrap();
        let token = signer.sign(&claims()).unwrap();
        for (now, good) in [(99, false), (100, true), (199, true), (200, false)] {
            assert_eq!(signer.verify(&token, now).is_some(), good, "{now}");
        }
        assert_eq!(signer.verify(&token, 150), Some(claims()));
        assert_eq!(Signer::ephemeral().unwrap().verify(&token, 150), None);
        assert_eq!(claims().user().name, "system:serviceaccount:default:sa");
    }

    #[test]
    fn forged_tokens_are_refused() {
        let signer = Signer::ephemeral().unwrap();
        let token = signer.sign(&claims()).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let none = encode(r#"{"alg":"none"}"#);
        let body = encode(r#"{"sub":"system:masters"}"#);
        for forged in [
            String::new(),
            ".".into(),
            "..".into(),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{}.{body}.{}", parts[0], parts[2]),
            format!("{}.{}.{}x", parts[0], parts[1], parts[2]),
            format!("{}.{}", parts[0], parts[1]),
            format!("{token}.{}", parts[2]),
            "x".repeat(LONGEST + 1),
        ] {
            assert_eq!(signer.verify(&forged, 150), None, "{forged}");
        }
    }

    #[test]
    fn user_names_of_accounts_are_read_back() {
        assert_eq!(split("system:serviceaccount:a:b.c"), Some(("a", "b.c")));
        for other in ["a:b", "system:serviceaccount:a", "system:serviceaccount::b", "system:serviceaccount:a:b:c"] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
