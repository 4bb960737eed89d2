//! Reading what `cargo test` writes.

/// The word that a test writes, past libtest's capture, when it cannot run. `concert-e2e` writes it.
const SKIPPED: &str = "SKIPPED: ";

/// What `cargo test` has said so far.
#[derive(Default)]
pub(super) struct Report {
    /// The test binary or doc tests that run now, until its result line comes.
    suite: Option<String>,
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    skips: Vec<String>,
    /// How many of them the suite that runs now has written.
    skips_of_suite: u64,
    inside_failures: bool,
}

impl Report {
    /// Takes in one line; gives back what of it a person wants to see.
    pub(super) fn read(&mut self, line: &str) -> Option<String> {
        // Between result lines a failing test's own output is repeated: that is not a test that speaks.
        if let Some(at) = line.find(SKIPPED).filter(|_| !self.inside_failures) {
            let reason = line[at + SKIPPED.len()..].to_owned();
            self.skips.push(reason.clone());
            self.skips_of_suite += 1;
            return Some(format!("{SKIPPED}{reason}"));
        }
        if let Some(suite) = suite_of(line) {
            self.close_suite();
            self.suite = Some(suite.to_owned());
            return None;
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            return self.read_result(result);
        }
        if let Some(test) = line.strip_prefix("test ") {
            return self.read_test(test, line);
        }
        self.inside_failures |= line == "failures:";
        let is_noise = line.is_empty() || line.starts_with("running ");
        (self.inside_failures || !is_noise).then(|| line.to_owned())
    }

    fn read_result(&mut self, result: &str) -> Option<String> {
        let count = |what: &str| {
            let before = result.split(what).next().filter(|before| before.len() < result.len())?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        let (passed, failed, ignored) = (count(" passed")?, count(" failed")?, count(" ignored")?);
        self.passed += passed;
        self.failed += failed;
        self.ignored += ignored;
        self.inside_failures = false;
        let suite = self.suite.take().unwrap_or_else(|| "doc tests".to_owned());
        let skipped = std::mem::take(&mut self.skips_of_suite);
        let took = result.split("finished in ").nth(1).unwrap_or("?");
        (passed + failed + ignored > 0).then(|| {
            let mark = if failed == 0 { "ok" } else { "FAILED" };
            let also = |count: u64, word: &str| if count == 0 { String::new() } else { format!(", {count} {word}") };
            let (failed, passed) = (also(failed, "failed"), passed.saturating_sub(skipped));
            format!("{mark:<6} {passed:>4} passed{failed}{}  {suite}  {took}", also(skipped + ignored, "skipped"))
        })
    }

    fn read_test(&mut self, test: &str, line: &str) -> Option<String> {
        if let Some(name) = test.strip_suffix(" ... FAILED") {
            let suite = self.suite.as_deref().unwrap_or("doc tests");
            self.failures.push(format!("{name}  ({suite})"));
            return Some(line.to_owned());
        }
        // `ok` is noise; `has been running for over 60 seconds` is not.
        (!test.contains(" ... ") || self.inside_failures).then(|| line.to_owned())
    }

    /// The end: a run that failed without a failing test (it did not build, it crashed) still counts as one failure.
    pub(super) fn finish(&mut self, success: bool) {
        self.close_suite();
        if !success && self.failed == 0 {
            self.fail("cargo test itself: see above");
        }
    }

    /// Counts one failure that no test reported.
    pub(super) fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.failures.push(what.to_owned());
    }

    /// A suite that gave no result crashed.
    fn close_suite(&mut self) {
        if let Some(suite) = self.suite.take() {
            self.fail(&format!("{suite} ended without a result"));
        }
    }

    /// What runs now.
    pub(super) fn running(&self) -> &str {
        self.suite.as_deref().unwrap_or("building the tests")
    }

    /// How many tests failed.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// The names of the tests that failed.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// What could not run, and why.
    pub(super) fn skips(&self) -> &[String] {
        &self.skips
    }

    /// The closing line. A test that skipped itself is one that cargo counted as passed.
    pub(super) fn counts(&self) -> String {
        let skipped = self.skips.len() as u64;
        let passed = self.passed.saturating_sub(skipped);
        format!("{passed} passed, {} failed, {} skipped", self.failed, skipped + self.ignored)
    }
}

/// The name of the suite that `line` announces.
fn suite_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("Doc-tests ") {
        return Some(line);
    }
    let (target, file) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    let file = file.strip_suffix(')')?;
    let stem = file.rsplit_once('/').map_or(file, |(_, stem)| stem);
    let name = stem.rsplit_once('-').map_or(stem, |(name, _hash)| name);
    // `unittests src/lib.rs` says nothing without the crate; a test file is named by the crate's directory.
    Some(if target.starts_with("unittests") { name } else { target })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, success: bool) -> Report {
        let mut report = Report::default();
        for line in text.lines() {
            report.read(line);
        }
        report.finish(success);
        report
    }

    const GREEN: &str = "\
   Compiling concert-world v0.1.0 (/work)
     Running unittests src/lib.rs (target/debug/deps/concert_world-0a1b2c3d4e5f6071)

running 2 tests
test clock::tests::moves ... ok
test gate::tests::refuses ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

   Doc-tests concert_world

running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.20s";

    #[test]
    fn result_lines_are_summed_even_two_per_suite() {
        let report = read(GREEN, true);
        assert_eq!(report.counts(), "6 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_skips_itself_is_not_passed() {
        let report = read(
            "     Running tests/smoke.rs (target/debug/deps/smoke-0a1b2c3d)\n\
             test starts::on_reference ... SKIPPED: starts::on_reference: no Go\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            true,
        );
        assert_eq!(report.counts(), "1 passed, 0 failed, 1 skipped");
        assert_eq!(report.skips(), ["starts::on_reference: no Go"]);
    }

    #[test]
    fn a_suite_says_how_many_of_it_were_skipped() {
        let mut report = Report::default();
        report.read("     Running tests/smoke.rs (target/debug/deps/smoke-0a1b2c3d)");
        report.read("SKIPPED: starts::on_reference: no Go");
        let result = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(report.read(result).unwrap(), "ok        1 passed, 1 skipped  tests/smoke.rs  0.01s");
    }

    #[test]
    fn failures_are_named_with_their_suite() {
        let report = read(
            "     Running tests/smoke.rs (target/debug/deps/smoke-0a1b2c3d)\n\
             test a ... FAILED\n\
             test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
             error: 1 target failed:",
            false,
        );
        assert_eq!(report.failures(), ["a  (tests/smoke.rs)"]);
        assert_eq!(report.counts(), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_crash_and_a_broken_build_are_failures() {
        let crash = read("     Running unittests src/lib.rs (target/debug/deps/concert_store-0a1b)", false);
        assert_eq!(crash.failures(), ["concert_store ended without a result"]);
        let broken = read("error: could not compile `concert-store`", false);
        assert_eq!(broken.counts(), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn passing_tests_are_not_shown_one_by_one() {
        let mut report = Report::default();
        assert_eq!(report.read("test a ... ok"), None);
        assert!(report.read("test a has been running for over 60 seconds").is_some());
        assert!(report.read("error[E0308]: mismatched types").is_some());
    }
}
