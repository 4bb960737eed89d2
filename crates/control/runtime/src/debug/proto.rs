//! The profile format of pprof: stacks of numbered places, and every text once.

use std::collections::HashMap;

use pprof::Report;

/// Numbers of the format are this wide.
type Number = i64;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: Number,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: Number,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: Number,
    #[prost(int64, tag = "2")]
    unit: Number,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<Number>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: Number,
    #[prost(int64, tag = "2")]
    text: Number,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: Number,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: Number,
    #[prost(int64, tag = "4")]
    filename: Number,
}

/// A profile that is being written.
#[derive(Default)]
struct Writer {
    profile: Profile,
    texts: HashMap<String, Number>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<(u64, Number), u64>,
}

impl Profile {
    /// What was seen, by how often and for how long.
    pub(super) fn of(report: &Report) -> Self {
        let mut writer = Writer::default();
        // The first text has to be the empty one.
        writer.text("");
        let period = 1_000_000_000 / Number::from(report.timing.frequency.max(1));
        let (samples, cpu) = (writer.value("samples", "count"), writer.value("cpu", "nanoseconds"));
        writer.profile.sample_type = vec![samples, cpu.clone()];
        (writer.profile.period_type, writer.profile.period) = (Some(cpu), period);
        writer.profile.duration_nanos = Number::try_from(report.timing.duration.as_nanos()).unwrap_or(Number::MAX);
        let thread = writer.text("thread");
        for (frames, count) in &report.data {
            let places = frames.frames.iter().flatten();
            let location_id = places.map(|symbol| writer.location(symbol)).collect();
            let label = Label { key: thread, text: writer.text(&frames.thread_name_or_id()) };
            let count = *count as Number;
            let value = vec![count, count.saturating_mul(period)];
            writer.profile.sample.push(Sample { location_id, value, label: vec![label] });
        }
        writer.profile
    }
}

impl Writer {
    fn text(&mut self, text: &str) -> Number {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.profile.string_table.len() as Number;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn value(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn location(&mut self, symbol: &pprof::Symbol) -> u64 {
        let function = self.function(symbol.name(), symbol.filename().into_owned());
        let line = Number::from(symbol.lineno());
        let next = self.profile.location.len() as u64 + 1;
        let id = *self.locations.entry((function, line)).or_insert(next);
        if id == next {
            self.profile.location.push(Location { id, line: vec![Line { function_id: function, line }] });
        }
        id
    }

    fn function(&mut self, name: String, file: String) -> u64 {
        if let Some(known) = self.functions.get(&(name.clone(), file.clone())) {
            return *known;
        }
        let id = self.profile.function.len() as u64 + 1;
        let (name_text, filename) = (self.text(&name), self.text(&file));
        self.profile.function.push(Function { id, name: name_text, filename });
        self.functions.insert((name, file), id);
        id
    }
}
