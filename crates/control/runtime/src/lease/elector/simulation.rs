//! Several candidates, one Lease, and a network, clocks and machines that misbehave: a simulation decided by a seed.
//!
//! Time is in microseconds. Every candidate has a clock of its own that runs fast or slow, and a wall clock that says
//! anything. Requests and answers are slow, or get lost; candidates are cut off, or stand still for a while (SIGSTOP).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A lease may be taken over after 15 s and is given up after 10 s: clocks may differ by so much.
const RATES: std::ops::Range<f64> = 0.85..1.15;
const SECOND: u64 = 1_000_000;
const FAULTS_END: u64 = 240 * SECOND;
/// Somebody leads by then: a lease, two waits of a slow clock, a few requests.
const BOUND: u64 = 40 * SECOND;

/// What happens to a candidate for a while.
#[derive(Clone, Debug)]
struct Fault {
    who: usize,
    from: u64,
    to: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    CutOff,
    AnswersLost,
    /// Each way takes so many milliseconds.
    Slow(u64),
    StandsStill,
}

struct Candidate {
    elector: Elector,
    rate: f64,
    /// Number of the request that is waited for.
    waits_for: Option<u64>,
}

enum Happening {
    Wakes(usize),
    Arrives {
        who: usize,
        number: u64,
        asked: Asked,
        reply_lost: bool,
    },
    Answered {
        who: usize,
        number: u64,
        answer: Answer,
    },
    GivesUp {
        who: usize,
        number: u64,
    },
    /// An act under a fence reaches what it acts on.
    Acts {
        fence: u64,
    },
}

enum Asked {
    Read,
    Write(Write),
}

struct Simulation {
    now: u64,
    seed: u64,
    faults: Vec<Fault>,
    candidates: Vec<Candidate>,
    happenings: BTreeMap<(u64, u64), Happening>,
    planned: u64,
    /// The Lease on the server.
    lease: Option<Record>,
    revision: u64,
    /// What is acted on: the highest fence it was shown, and how many acts it refused.
    highest: u64,
    refused: u64,
    last_leader: u64,
}

impl Simulation {
    fn new(rates: &[f64], faults: Vec<Fault>, seed: u64) -> Self {
        let candidate = |(n, rate): (usize, &f64)| Candidate {
            elector: Elector::new(LeaseSettings::new("n", "l", format!("c{n}"))),
            rate: *rate,
            waits_for: None,
        };
        let candidates: Vec<_> = rates.iter().enumerate().map(candidate).collect();
        let mut simulation = Self {
            now: 0,
            seed,
            faults,
            candidates,
            happenings: BTreeMap::new(),
            planned: 0,
            lease: None,
            revision: 0,
            highest: 0,
            refused: 0,
            last_leader: 0,
        };
        for who in 0..rates.len() {
            simulation.plan(0, Happening::Wakes(who));
        }
        simulation
    }

    fn random(&mut self) -> u64 {
        // SplitMix64: small, and good enough to choose delays.
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn spread(&mut self) -> f64 {
        (self.random() % 1000) as f64 / 1000.0
    }

    fn plan(&mut self, at: u64, happening: Happening) {
        self.planned += 1;
        self.happenings.insert((at, self.planned), happening);
    }

    fn suffers(&self, who: usize, what: impl Fn(What) -> bool) -> Option<&Fault> {
        self.faults
            .iter()
            .find(|fault| fault.who == who && fault.from <= self.now && self.now < fault.to && what(fault.what))
    }

    /// What a candidate's own clock says.
    fn clock(&self, who: usize) -> Duration {
        Duration::from_micros((self.now as f64 * self.candidates[who].rate) as u64 + 77 * SECOND * who as u64)
    }

    /// How long it takes until a candidate's own clock has moved by `wait`.
    fn real(&self, who: usize, wait: Duration) -> u64 {
        (wait.as_micros() as f64 / self.candidates[who].rate) as u64 + 1
    }

    fn leaders(&self) -> Vec<u64> {
        let fence = |who: usize| match self.candidates[who].elector.standing(self.clock(who)) {
            Standing::Leading { fence } => Some(fence.parse().expect("a revision")),
            Standing::Unknown | Standing::Following { .. } => None,
        };
        (0..self.candidates.len()).filter_map(fence).collect()
    }

    /// One way through the network.
    fn latency(&mut self, who: usize) -> u64 {
        let slow = self.suffers(who, |what| matches!(what, What::Slow(_))).map(|fault| fault.what);
        let Some(What::Slow(milliseconds)) = slow else { return self.random() % 20_000 };
        self.random() % (milliseconds * 1000)
    }

    /// Takes the next happening; `false` when there is none before `until`.
    fn next(&mut self, until: u64) -> bool {
        let Some(((at, number), happening)) = self.happenings.pop_first() else { return false };
        if at > until {
            self.happenings.insert((at, number), happening);
            return false;
        }
        self.now = at;
        match happening {
            Happening::Wakes(who) => self.wakes(who),
            Happening::Arrives { who, number, asked, reply_lost } => self.arrives(who, number, asked, reply_lost),
            Happening::Answered { who, number, answer } => self.hears(who, number, answer),
            Happening::GivesUp { who, number } => self.hears(who, number, Answer::Failed),
            Happening::Acts { fence } if fence < self.highest => self.refused += 1,
            Happening::Acts { .. } => {}
        }
        true
    }

    /// Puts off what a candidate would do until it no longer stands still.
    fn stands_still(&self, who: usize) -> Option<u64> {
        self.suffers(who, |what| what == What::StandsStill).map(|fault| fault.to)
    }

    fn wakes(&mut self, who: usize) {
        if let Some(until) = self.stands_still(who) {
            return self.plan(until, Happening::Wakes(who));
        }
        if self.candidates[who].waits_for.is_some() {
            return;
        }
        let (clock, spread, wall) = (self.clock(who), self.spread(), (self.random() % 4_000_000_000) as i64);
        let step = self.candidates[who].elector.step(clock, Time::from_unix_seconds(wall), spread);
        self.acts(who);
        match step {
            Step::Wait(wait) => self.plan(self.now + self.real(who, wait), Happening::Wakes(who)),
            Step::Read => self.sends(who, Asked::Read),
            Step::Write(write) => self.sends(who, Asked::Write(write)),
            Step::Lost(_) => {
                // What a process that was lost does: it comes back as a candidate.
                let settings = self.candidates[who].elector.settings.clone();
                self.candidates[who].elector = Elector::new(settings);
                self.plan(self.now + SECOND, Happening::Wakes(who));
            }
        }
    }

    /// A leader shows its fence to what it acts on first, and acts whenever it wakes; acts are on their way for long.
    fn acts(&mut self, who: usize) {
        let Standing::Leading { fence } = self.candidates[who].elector.standing(self.clock(who)) else { return };
        let fence = fence.parse().expect("a revision");
        self.highest = self.highest.max(fence);
        let at = self.now + self.random() % (20 * SECOND);
        self.plan(at, Happening::Acts { fence });
    }

    fn sends(&mut self, who: usize, asked: Asked) {
        let number = self.planned;
        self.candidates[who].waits_for = Some(number);
        let timeout = self.real(who, self.candidates[who].elector.settings.request_timeout());
        let loses =
            self.candidates[who].elector.loses_at().map(|at| self.real(who, at.saturating_sub(self.clock(who))));
        let at = self.now + timeout.min(loses.unwrap_or(u64::MAX));
        self.plan(at, Happening::GivesUp { who, number });
        if self.suffers(who, |what| what == What::CutOff).is_none() {
            let reply_lost =
                self.suffers(who, |what| what == What::AnswersLost).is_some() && self.random().is_multiple_of(2);
            let at = self.now + self.latency(who);
            self.plan(at, Happening::Arrives { who, number, asked, reply_lost });
        }
    }

    fn arrives(&mut self, who: usize, number: u64, asked: Asked, reply_lost: bool) {
        let answer = match asked {
            Asked::Read => Answer::Seen(self.lease.clone().map(|record| (record, self.revision.to_string()))),
            Asked::Write(Write { record, expected }) => {
                let current = self.lease.as_ref().map(|_| self.revision.to_string());
                if expected == current {
                    self.revision += 1 + self.random() % 3;
                    self.lease = Some(record);
                    Answer::Written(self.revision.to_string())
                } else {
                    Answer::Failed
                }
            }
        };
        if !reply_lost && self.suffers(who, |what| what == What::CutOff).is_none() {
            let at = self.now + self.latency(who);
            self.plan(at, Happening::Answered { who, number, answer });
        }
    }

    fn hears(&mut self, who: usize, number: u64, answer: Answer) {
        if let Some(until) = self.stands_still(who) {
            return self.plan(until, Happening::Answered { who, number, answer });
        }
        if self.candidates[who].waits_for != Some(number) {
            return;
        }
        self.candidates[who].waits_for = None;
        let (clock, spread) = (self.clock(who), self.spread());
        self.candidates[who].elector.answered(answer, clock, spread);
        self.plan(self.now, Happening::Wakes(who));
    }

    /// Runs to the end of the faults and then on until somebody leads; says when that was.
    fn run(&mut self, one_at_a_time: bool) -> u64 {
        while self.next(FAULTS_END) {
            self.check(one_at_a_time);
        }
        while self.next(FAULTS_END + BOUND) {
            self.check(one_at_a_time);
            if self.leaders().len() == 1 {
                return self.now - FAULTS_END.min(self.now);
            }
        }
        panic!("nobody led within {BOUND} after the last fault");
    }

    fn check(&mut self, one_at_a_time: bool) {
        let mut leaders = self.leaders();
        leaders.sort_unstable();
        assert!(leaders.windows(2).all(|pair| pair[0] != pair[1]), "two have the same fence: {leaders:?}");
        assert!(!one_at_a_time || leaders.len() <= 1, "{leaders:?} lead at {}", self.now);
        if let [leader] = leaders[..]
            && one_at_a_time
        {
            assert!(leader >= self.last_leader, "fences only grow: {leader} after {}", self.last_leader);
            self.last_leader = leader;
        }
    }
}

fn faults(candidates: usize) -> impl Strategy<Value = Vec<Fault>> {
    let what = prop_oneof![
        Just(What::CutOff),
        Just(What::AnswersLost),
        (100..9000_u64).prop_map(What::Slow),
        Just(What::StandsStill),
    ];
    let fault = (0..candidates, 0..FAULTS_END, 1..60 * SECOND, what);
    let fault =
        fault.prop_map(|(who, from, length, what)| Fault { who, from, to: (from + length).min(FAULTS_END), what });
    prop::collection::vec(fault, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 10_000 }))]

    /// As long as clocks run at nearly the same speed, whatever they say.
    #[test]
    fn never_two_leaders_and_soon_one(
        rates in prop::collection::vec(RATES, 2..5), faults in faults(4), seed: u64,
    ) {
        Simulation::new(&rates, faults, seed).run(true);
    }

    /// With clocks that cannot be trusted at all there may be two for a moment; the fence tells them apart, and
    /// what they act on refuses the older one from the moment it has been shown the newer fence.
    #[test]
    fn with_mad_clocks_the_fence_decides(
        rates in prop::collection::vec(0.2..5.0, 2..5), faults in faults(4), seed: u64,
    ) {
        let mut simulation = Simulation::new(&rates, faults, seed);
        while simulation.next(FAULTS_END) {
            simulation.check(false);
        }
    }
}

#[test]
fn a_deposed_leaders_acts_are_refused() {
    // It stands still as leader, with an act on its way, until the next one leads.
    let fault = |from: u64| Fault { who: 0, from: from * SECOND, to: (from + 25) * SECOND, what: What::StandsStill };
    let mut refused = 0;
    for seed in 0..20 {
        let mut simulation = Simulation::new(&[1.0, 1.0], (1..6).map(|n| fault(n * 40)).collect(), seed);
        simulation.run(true);
        refused += simulation.refused;
    }
    assert!(refused > 0, "acts that were on their way came too late");
}
