//! What the client accepts, of what there is.

use concert_api::Status;
use http::{HeaderMap, header};

use super::{JSON, PROTOBUF, YAML};

/// The form in which the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As rows for people, in this version.
    Table(&'static str),
    /// Only their metadata, in this version, of one object or of many.
    Metadata(&'static str, Count),
    /// Discovery in one document.
    AggregatedDiscovery(&'static str),
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// What the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

/// One or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Many,
}

/// What there is to be had, which decides about forms and words of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of a custom resource.
    Custom,
    /// Objects of a built-in kind; whether as a list.
    Builtin(Count),
    /// The answer to a question, which has no columns.
    Answer,
    /// Documents about what is served.
    Discovery { routed: bool, aggregated: bool },
    /// Something that is always JSON.
    Fixed,
}

const REPRESENTATIONS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl Offer {
    /// Tables have no protobuf, and neither have custom resources; their metadata has.
    fn has(self, wanted: Wanted) -> bool {
        let is_text = wanted.encoding != Encoding::Protobuf;
        match (self, wanted.form) {
            (Self::Custom, Form::Object) | (Self::Custom | Self::Builtin(_), Form::Table(_)) => is_text,
            (Self::Builtin(_) | Self::Answer | Self::Discovery { .. }, Form::Object) => true,
            (Self::Fixed, Form::Object) => wanted.encoding == Encoding::Json,
            (Self::Custom | Self::Builtin(_) | Self::Answer, Form::Metadata(..)) => true,
            (Self::Discovery { aggregated, .. }, Form::AggregatedDiscovery(_)) => aggregated,
            (Self::Answer, Form::Table(_))
            | (Self::Custom | Self::Builtin(_) | Self::Answer, Form::AggregatedDiscovery(_))
            | (Self::Discovery { .. }, Form::Table(_) | Form::Metadata(..))
            | (Self::Fixed, Form::Table(_) | Form::Metadata(..) | Form::AggregatedDiscovery(_)) => false,
        }
    }

    /// What is built in is found by media type before anybody looks at the rest; the refusal then is another one.
    fn check_route(self, accepts: &str) -> Result<(), Status> {
        let available = match self {
            Self::Custom | Self::Discovery { routed: false, .. } => return Ok(()),
            Self::Builtin(Count::Many) => format!("{REPRESENTATIONS}, {STREAMS}"),
            Self::Builtin(Count::One) | Self::Answer | Self::Discovery { .. } => REPRESENTATIONS.to_owned(),
            Self::Fixed => JSON.to_owned(),
        };
        let media = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
        let known = if matches!(self, Self::Fixed) { JSON } else { REPRESENTATIONS };
        let routed = |clause: &str| clause == "*/*" || known.split(", ").any(|one| one == clause);
        if accepts.split(',').any(|clause| routed(&media(clause))) {
            return Ok(());
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Err(Status::failure(406, "NotAcceptable", message).with(concert_api::Details::default()))
    }
}

/// Chooses what the client likes best of what we can give.
pub(crate) fn negotiate(headers: &HeaderMap, offer: Offer) -> Result<Wanted, Status> {
    let accepts = accepts(headers);
    if accepts.trim().is_empty() {
        return Ok(Wanted { form: Form::Object, encoding: Encoding::Json });
    }
    offer.check_route(&accepts)?;
    clauses(&accepts)
        .into_iter()
        .flat_map(wanted)
        .find(|wanted| offer.has(*wanted))
        .ok_or_else(|| not_acceptable(format!("only the following media types are accepted: {REPRESENTATIONS}")))
}

/// How failures are written: as the client likes it best where it asks for nothing but an encoding, else in JSON.
pub(crate) fn plain(headers: &HeaderMap) -> Encoding {
    let accepts = accepts(headers);
    let mut plain = clauses(&accepts).into_iter().flat_map(wanted).filter(|wanted| wanted.form == Form::Object);
    plain.next().map_or(Encoding::Json, |wanted| wanted.encoding)
}

impl Wanted {
    /// 406: events do not come in YAML.
    pub(crate) fn check_stream(self) -> Result<(), Status> {
        if self.encoding == Encoding::Yaml {
            return Err(not_acceptable(format!("only the following media types are accepted: {STREAMS}")));
        }
        Ok(())
    }
}

fn accepts(headers: &HeaderMap) -> String {
    let values: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// What the client accepts, by its preference: `q` first, then what is told exactly before what is not, then in order.
fn clauses(accepts: &str) -> Vec<&str> {
    let quality = |clause: &str| {
        let told = clause.split(';').skip(1).find_map(|part| part.trim().strip_prefix("q="));
        told.map_or(1.0, |told| told.trim().parse::<f32>().unwrap_or(0.0))
    };
    let vague = |clause: &str| clause.split(';').next().unwrap_or_default().matches('*').count();
    let mut clauses: Vec<&str> = accepts.split(',').collect();
    clauses.sort_by(|a, b| quality(b).total_cmp(&quality(a)).then_with(|| vague(a).cmp(&vague(b))));
    clauses
}

/// 406.
pub(crate) fn not_acceptable(message: String) -> Status {
    Status::failure(406, "NotAcceptable", message)
}

/// What a clause asks for: one thing in one encoding, or in any.
fn wanted(clause: &str) -> Vec<Wanted> {
    let media = clause.split(';').next().unwrap_or_default().trim();
    let encodings: &[Encoding] = match media {
        JSON => &[Encoding::Json],
        YAML => &[Encoding::Yaml],
        PROTOBUF => &[Encoding::Protobuf],
        "application/*" | "*/*" => &[Encoding::Json, Encoding::Yaml, Encoding::Protobuf],
        _ => &[],
    };
    let Some(form) = form(clause) else { return Vec::new() };
    encodings.iter().map(|encoding| Wanted { form, encoding: *encoding }).collect()
}

fn form(clause: &str) -> Option<Form> {
    let (mut kind, mut version, mut group) = ("", "", "");
    for part in clause.split(';').skip(1).map(str::trim) {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("v", value)) => version = value,
            Some(("g", value)) => group = value,
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", ..) => Some(Form::Object),
        ("Table", "meta.k8s.io", version) => Some(Form::Table(meta_version(version)?)),
        ("PartialObjectMetadata", "meta.k8s.io", version) => Some(Form::Metadata(meta_version(version)?, Count::One)),
        ("PartialObjectMetadataList", "meta.k8s.io", version) => {
            Some(Form::Metadata(meta_version(version)?, Count::Many))
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::AggregatedDiscovery("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Form::AggregatedDiscovery("v2beta1")),
        _ => None,
    }
}

fn meta_version(version: &str) -> Option<&'static str> {
    match version {
        "v1" => Some("meta.k8s.io/v1"),
        "v1beta1" => Some("meta.k8s.io/v1beta1"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn accepting(accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers
    }

    /// What client-go, controller-runtime and kubectl send.
    #[test]
    fn protobuf_is_given_where_there_is_some() {
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        let metadata =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
        let discovery = Offer::Discovery { routed: true, aggregated: true };
        let builtin = Offer::Builtin(Count::One);
        for (accept, offer, expected) in [
            (typed, builtin, Encoding::Protobuf),
            (typed, discovery, Encoding::Protobuf),
            (typed, Offer::Custom, Encoding::Json),
            (typed, Offer::Fixed, Encoding::Json),
            (metadata, builtin, Encoding::Protobuf),
            (metadata, Offer::Custom, Encoding::Protobuf),
            (table, builtin, Encoding::Json),
            ("application/json,application/vnd.kubernetes.protobuf", builtin, Encoding::Json),
            ("application/json;q=0.5,application/vnd.kubernetes.protobuf;q=0.8", builtin, Encoding::Protobuf),
            ("*/*", builtin, Encoding::Json),
        ] {
            let wanted = negotiate(&accepting(accept), offer).map(|wanted| wanted.encoding);
            assert_eq!(wanted.ok(), Some(expected), "{accept} {offer:?}");
        }
        assert!(negotiate(&accepting("application/vnd.kubernetes.protobuf"), Offer::Custom).is_err());
        assert_eq!(plain(&accepting(typed)), Encoding::Protobuf);
        assert_eq!(plain(&accepting(metadata)), Encoding::Json);
        assert_eq!(plain(&accepting("text/html")), Encoding::Json);
    }

    #[test]
    fn the_clients_order_counts() {
        for (accept, expected) in [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Object)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Form::Table("meta.k8s.io/v1"))),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Object)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
                Some(Form::Metadata("meta.k8s.io/v1beta1", Count::Many)),
            ),
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", None),
            ("application/*", Some(Form::Object)),
            (
                "application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io",
                Some(Form::Table("meta.k8s.io/v1")),
            ),
            ("*/*, application/json;as=Table;v=v1;g=meta.k8s.io", Some(Form::Table("meta.k8s.io/v1"))),
            ("text/plain", None),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            let headers = accepting(accept);
            assert_eq!(negotiate(&headers, Offer::Custom).ok().map(|wanted| wanted.form), expected, "{accept}");
        }
    }

    #[test]
    fn what_is_refused_depends_on_what_is_asked() {
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let (plain, all) = (Offer::Discovery { routed: false, aggregated: false }, Offer::Builtin(Count::Many));
        let aggregated = Offer::Discovery { routed: true, aggregated: true };
        for (offer, accept, expected) in [
            (aggregated, discovery, Ok(Form::AggregatedDiscovery("v2"))),
            (plain, discovery, Err("only the following")),
            (Offer::Builtin(Count::One), "application/*", Err("406: Not Acceptable")),
            (Offer::Builtin(Count::One), "application/json;as=X;v=v1;g=meta.k8s.io", Err("only the following")),
            (all, "text/plain;q=1, text/html", Err("406: Not Acceptable")),
            (all, "text/html;q=0.9, application/json;q=0.5", Ok(Form::Object)),
        ] {
            let headers = accepting(accept);
            match (negotiate(&headers, offer), expected) {
                (Ok(wanted), Ok(expected)) => assert_eq!(wanted.form, expected, "{accept}"),
                (Err(status), Err(words)) => assert!(status.message.starts_with(words), "{accept}: {status:?}"),
                (found, _) => panic!("{accept}: {found:?}"),
            }
        }
    }
}
