//! The objects that are served: a Pod of 10 KB, ConfigMaps of 2 KB and of 1 KB, a custom object of 4 KB, each in any number.
//!
//! All objects of a kind have the same text but for a few holes of fixed width (number, revision, generation, node, time of
//! sending). What goes over the wire is therefore encoded once, and an object costs the server a copy and a few digits.

mod protobuf;

use serde_json::Value;

use protobuf::{CONFIG_MAP, POD, Table, of_bytes, put_bytes, put_number};

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 10.4 KB of JSON, two entries of managedFields, a node of its own.
    Pod,
    /// 2 KB of JSON.
    ConfigMap,
    /// A ConfigMap of 1 KB: what there are most of in a cluster.
    SmallMap,
    /// 4 KB of JSON; of the custom kind of this number.
    Custom(u32),
}

/// How it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// What everybody understands.
    Json,
    /// What client-go asks for where it can.
    Protobuf,
}

/// What tells one object, and one version of it, from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Which object.
    pub number: u32,
    /// Its resourceVersion.
    pub revision: u64,
    /// How often its spec changed.
    pub generation: u32,
    /// On which node a Pod is.
    pub node: u32,
    /// When the event was sent, in nanoseconds since 1970; 0 for what was there from the beginning.
    pub sent: u64,
}

/// The first revision and generation: all of them have the same number of digits (and of bytes as varints).
pub const FIRST_REVISION: u64 = 1_000_000_000;
const FIRST_GENERATION: u32 = 10_000_000;

/// Where in the text what is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    Number,
    Revision,
    Generation,
    GenerationVarint,
    Node,
    Sent,
}

/// Bytes with holes.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    holes: Vec<(usize, Hole)>,
}

/// All that a kind needs in one encoding.
#[derive(Clone, Debug)]
pub struct Forms {
    encoding: Encoding,
    api_version: String,
    kind: String,
    /// An object alone.
    pub single: Template,
    /// An item of a list.
    pub item: Template,
    /// A frame of a watch: the object was there or is new.
    pub added: Template,
    /// A frame of a watch: the object changed.
    pub modified: Template,
}

impl Kind {
    /// The singular, as in `kind`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Pod => "Pod".to_owned(),
            Self::ConfigMap | Self::SmallMap => "ConfigMap".to_owned(),
            Self::Custom(number) => format!("Kind{number:03}"),
        }
    }

    /// Lower case and plural, as in paths.
    #[must_use]
    pub fn plural(self) -> String {
        format!("{}s", self.name().to_lowercase())
    }

    /// `v1`, or group and version.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::ConfigMap | Self::SmallMap => "v1",
            Self::Custom(_) => "bench.concert.dev/v1",
        }
    }

    /// What every object of it is called, before its number.
    fn prefix(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::ConfigMap | Self::SmallMap => "map",
            Self::Custom(_) => "item",
        }
    }

    /// The name of an object.
    #[must_use]
    pub fn object_name(self, number: u32) -> String {
        format!("{}-{number:07}", self.prefix())
    }

    /// The JSON of the sample object, as a server writes it.
    #[must_use]
    pub fn sample(self) -> String {
        match self {
            Self::Pod => compact(include_str!("objects/pod.json")),
            Self::ConfigMap => compact(include_str!("objects/config_map.json")),
            Self::SmallMap => compact(include_str!("objects/small_map.json")),
            Self::Custom(_) => compact(include_str!("objects/custom.json")).replace("Kind321", &self.name()),
        }
    }

    fn table(self) -> Option<&'static Table> {
        match self {
            Self::Pod => Some(POD),
            Self::ConfigMap | Self::SmallMap => Some(CONFIG_MAP),
            Self::Custom(_) => None,
        }
    }

    /// Its templates in an encoding; `None` where the real server has no such encoding either.
    #[must_use]
    pub fn forms(self, encoding: Encoding) -> Option<Forms> {
        let (api_version, kind) = (self.api_version().to_owned(), self.name());
        match encoding {
            Encoding::Json => Some(self.json(api_version, kind)),
            Encoding::Protobuf => {
                let sample: Value = serde_json::from_str(&self.sample()).expect("the sample is JSON");
                Some(in_protobuf(api_version, kind, &protobuf::message(self.table()?, &sample)))
            }
        }
    }

    fn json(self, api_version: String, kind: String) -> Forms {
        let whole = self.sample();
        let typed = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#);
        // The real server leaves out the kind of items of built-in lists.
        let item = whole.strip_prefix(&typed).map_or_else(|| whole.clone(), |rest| format!("{{{rest}"));
        let frame = |r#type| Template::of(format!("{{\"type\":\"{type}\",\"object\":{whole}}}\n").into_bytes());
        Forms {
            encoding: Encoding::Json,
            api_version,
            kind,
            single: Template::of(whole.clone().into_bytes()),
            item: Template::of(item.into_bytes()),
            added: frame("ADDED"),
            modified: frame("MODIFIED"),
        }
    }
}

fn in_protobuf(api_version: String, kind: String, message: &[u8]) -> Forms {
    let single = envelope(&api_version, &kind, message);
    let frame = |r#type: &str| Template::of(frame(r#type, &single));
    let (added, modified) = (frame("ADDED"), frame("MODIFIED"));
    let item = Template::of(of_bytes(2, message));
    Forms { encoding: Encoding::Protobuf, api_version, kind, single: Template::of(single), item, added, modified }
}

/// What stands around every message: a mark, its kind, and itself as bytes.
fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind);
    put_bytes(&mut out, 2, message);
    out
}

fn envelope_head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut typed = of_bytes(1, api_version.as_bytes());
    put_bytes(&mut typed, 2, kind.as_bytes());
    let mut out = b"k8s\0".to_vec();
    put_bytes(&mut out, 1, &typed);
    out
}

/// A frame of a watch: its length, then a `WatchEvent`.
fn frame(r#type: &str, object: &[u8]) -> Vec<u8> {
    let mut event = of_bytes(1, r#type.as_bytes());
    put_bytes(&mut event, 2, &of_bytes(1, object));
    let length = u32::try_from(event.len()).expect("an object is small");
    [&length.to_be_bytes()[..], &event].concat()
}

impl Forms {
    /// What comes before the items of a list of `items`; `rest` are left for further pages.
    #[must_use]
    pub fn list_head(&self, revision: u64, items: usize, next: Option<(String, usize)>) -> Vec<u8> {
        let kind = format!("{}List", self.kind);
        match self.encoding {
            Encoding::Json => {
                let next = next.map_or_else(String::new, |(token, rest)| {
                    format!(r#","continue":"{token}","remainingItemCount":{rest}"#)
                });
                let head = format!(r#"{{"kind":"{kind}","apiVersion":"{}","#, self.api_version);
                format!(r#"{head}"metadata":{{"resourceVersion":"{revision}"{next}}},"items":["#).into_bytes()
            }
            Encoding::Protobuf => {
                let mut metadata = of_bytes(2, revision.to_string().as_bytes());
                if let Some((token, rest)) = next {
                    put_bytes(&mut metadata, 3, token.as_bytes());
                    put_number(&mut metadata, 4, rest as u64);
                }
                let metadata = of_bytes(1, &metadata);
                let mut out = envelope_head(&self.api_version, &kind);
                protobuf::put_varint(&mut out, 2 << 3 | 2);
                protobuf::put_varint(&mut out, (metadata.len() + items * self.item.bytes.len()) as u64);
                out.extend(metadata);
                out
            }
        }
    }

    /// What stands between two items, and after the last.
    #[must_use]
    pub fn list_joints(&self) -> (&'static [u8], &'static [u8]) {
        match self.encoding {
            Encoding::Json => (b",", b"]}\n"),
            Encoding::Protobuf => (b"", b""),
        }
    }

    /// A bookmark; `ends_initial` says that all that was there has been sent.
    #[must_use]
    pub fn bookmark(&self, revision: u64, ends_initial: bool) -> Vec<u8> {
        let Self { api_version, kind, .. } = self;
        let mark = "k8s.io/initial-events-end";
        match self.encoding {
            Encoding::Json => {
                let annotations =
                    if ends_initial { format!(r#","annotations":{{"{mark}":"true"}}"#) } else { String::new() };
                let metadata = format!(r#"{{"resourceVersion":"{revision}"{annotations}}}"#);
                let object = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata}}}"#);
                format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into_bytes()
            }
            Encoding::Protobuf => {
                let mut metadata = of_bytes(6, revision.to_string().as_bytes());
                if ends_initial {
                    let mut entry = of_bytes(1, mark.as_bytes());
                    put_bytes(&mut entry, 2, b"true");
                    put_bytes(&mut metadata, 12, &entry);
                }
                frame("BOOKMARK", &envelope(api_version, kind, &of_bytes(1, &metadata)))
            }
        }
    }

    /// The end of a watch whose revision is too old.
    #[must_use]
    pub fn expired(&self) -> Vec<u8> {
        let message = "too old resource version";
        match self.encoding {
            Encoding::Json => format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", expired_status()).into_bytes(),
            Encoding::Protobuf => {
                let mut status = of_bytes(2, b"Failure");
                put_bytes(&mut status, 3, message.as_bytes());
                put_bytes(&mut status, 4, b"Expired");
                put_number(&mut status, 6, 410);
                frame("ERROR", &envelope("v1", "Status", &status))
            }
        }
    }
}

/// What the server says when a revision is too old.
fn expired_status() -> &'static str {
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}"#
}

impl Template {
    /// Finds the holes: what the samples have there stands nowhere else.
    fn of(bytes: Vec<u8>) -> Self {
        let mut varint = Vec::new();
        protobuf::put_varint(&mut varint, 33_333_333);
        let needles: [(&[u8], usize, Hole); 6] = [
            (b"7777777", 0, Hole::Number),
            (b"8462013579", 0, Hole::Revision),
            (b"33333333", 0, Hole::Generation),
            (&varint, 0, Hole::GenerationVarint),
            (b"node-6666", 5, Hole::Node),
            (b"99999999999999999999", 0, Hole::Sent),
        ];
        let mut holes = Vec::new();
        for (needle, offset, hole) in needles {
            let found = bytes.windows(needle.len()).enumerate().filter(|(_, window)| *window == needle);
            holes.extend(found.map(|(at, _)| (at + offset, hole)));
        }
        holes.sort_unstable_by_key(|(at, _)| *at);
        assert!(holes.windows(2).all(|pair| pair[0].0 + 4 <= pair[1].0), "holes may not overlap");
        Self { bytes, holes }
    }

    /// Appends one version of one object.
    pub fn render(&self, version: &Version, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for (at, hole) in &self.holes {
            let at = start + at;
            match hole {
                Hole::Number => digits(&mut out[at..at + 7], version.number.into()),
                Hole::Revision => digits(&mut out[at..at + 10], version.revision),
                Hole::Generation => digits(&mut out[at..at + 8], (FIRST_GENERATION + version.generation).into()),
                Hole::GenerationVarint => varint(&mut out[at..at + 4], FIRST_GENERATION + version.generation),
                Hole::Node => digits(&mut out[at..at + 4], version.node.into()),
                Hole::Sent => digits(&mut out[at..at + 20], version.sent),
            }
        }
    }
}

fn digits(out: &mut [u8], mut number: u64) {
    for place in out.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn varint(out: &mut [u8], mut number: u32) {
    let last = out.len() - 1;
    for (at, place) in out.iter_mut().enumerate() {
        *place = (number & 0x7f) as u8 | if at < last { 0x80 } else { 0 };
        number >>= 7;
    }
}

/// JSON without the space between its tokens; the order of fields stays, as serde_json's would not.
fn compact(json: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(json.len()), false, false);
    for letter in json.chars() {
        if quoted || !letter.is_whitespace() {
            out.push(letter);
        }
        quoted ^= letter == '"' && !escaped;
        escaped = quoted && letter == '\\' && !escaped;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: Version = Version { number: 42, revision: FIRST_REVISION + 5, generation: 3, node: 17, sent: 1234 };

    fn rendered(template: &Template) -> Vec<u8> {
        let mut out = Vec::new();
        template.render(&VERSION, &mut out);
        out
    }

    #[test]
    fn the_pod_is_as_large_as_the_issue_says() {
        let pod: Value = serde_json::from_str(&Kind::Pod.sample()).unwrap();
        assert_eq!(pod["metadata"]["managedFields"].as_array().unwrap().len(), 2);
        assert!((10_300..10_500).contains(&Kind::Pod.sample().len()));
        assert!((1_900..2_100).contains(&Kind::ConfigMap.sample().len()));
        assert!((980..1_040).contains(&Kind::SmallMap.sample().len()));
        assert!((3_900..4_100).contains(&Kind::Custom(7).sample().len()));
    }

    #[test]
    fn holes_are_filled_in_json() {
        for kind in [Kind::Pod, Kind::ConfigMap, Kind::SmallMap, Kind::Custom(9)] {
            let forms = kind.forms(Encoding::Json).unwrap();
            let object: Value = serde_json::from_slice(&rendered(&forms.single)).unwrap();
            let metadata = &object["metadata"];
            assert_eq!(
                (object["kind"].as_str(), metadata["name"].as_str()),
                (Some(&*kind.name()), Some(&*kind.object_name(42)))
            );
            assert_eq!(metadata["resourceVersion"], "1000000005");
            assert_eq!(metadata["annotations"]["bench.concert.dev/sent"], "00000000000000001234");
            let frame: Value = serde_json::from_slice(&rendered(&forms.added)).unwrap();
            assert_eq!(frame["object"], object);
            let mut item: Value = serde_json::from_slice(&rendered(&forms.item)).unwrap();
            assert_eq!(item.get("kind").is_some(), matches!(kind, Kind::Custom(_)), "as the real server does");
            item["kind"] = object["kind"].clone();
            item["apiVersion"] = object["apiVersion"].clone();
            assert_eq!(item, object);
        }
        let pod: Value = serde_json::from_slice(&rendered(&Kind::Pod.forms(Encoding::Json).unwrap().single)).unwrap();
        assert_eq!(
            (&pod["spec"]["nodeName"], &pod["metadata"]["generation"]),
            (&"node-0017".into(), &10_000_003.into())
        );
    }

    /// All texts of a JSON value.
    fn texts(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) => vec![text.clone()],
            Value::Array(items) => items.iter().flat_map(texts).collect(),
            Value::Object(fields) => fields.values().flat_map(texts).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        }
    }

    #[test]
    fn protobuf_says_what_json_says() {
        for kind in [Kind::Pod, Kind::ConfigMap, Kind::SmallMap] {
            let json: Value = serde_json::from_slice(&rendered(&kind.forms(Encoding::Json).unwrap().single)).unwrap();
            let wire = rendered(&kind.forms(Encoding::Protobuf).unwrap().single);
            for text in texts(&json).into_iter().filter(|text| !text.starts_with("2026-")) {
                assert!(wire.windows(text.len()).any(|window| window == text.as_bytes()), "{text} is missing");
            }
            assert!(wire.starts_with(b"k8s\0") && wire.len() < kind.sample().len());
        }
        assert!(Kind::Custom(1).forms(Encoding::Protobuf).is_none(), "custom kinds are JSON");
    }

    #[test]
    fn lists_are_put_together() {
        let forms = Kind::Pod.forms(Encoding::Json).unwrap();
        let mut list = forms.list_head(7, 1, Some(("5".into(), 9)));
        list.extend([rendered(&forms.item), forms.list_joints().1.to_vec()].concat());
        let list: Value = serde_json::from_slice(&list).unwrap();
        assert_eq!((&list["metadata"]["continue"], list["items"].as_array().map(Vec::len)), (&"5".into(), Some(1)));
        assert!(serde_json::from_slice::<Value>(&forms.bookmark(9, true)).is_ok());
        assert!(serde_json::from_slice::<Value>(&forms.expired()).is_ok());
    }
}
