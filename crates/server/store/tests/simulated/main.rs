//! What is left of a store on a disk that lost power, lost sectors, flipped bits or failed.
//!
//! A workload runs on a simulated disk that writes down every operation. From that record come images: what the disk
//! may hold if power is lost there. On each of them the store is opened, and must be what it was at one revision, with
//! every acknowledged write, every event since its floor, and no revision that anybody has seen before; or, where bits
//! have flipped, it may refuse and say what to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod disk;
mod workload;

use std::panic::Location;
use std::time::Duration;

use concert_store::{Durability, OpenError, Options, Store, Window};
use concert_world::World;
use disk::{Disk, Failure, Fault, Image, Io, SECTOR};
use workload::{Dice, Model, Workload, run};

/// Images of each test: together more than [`IMAGES`].
const CUTS: usize = 7_000;
const FLIPS: usize = 11_000;
const SECOND_CRASHES: usize = 1_400;
const FAILURES: usize = 1_000;
const IMAGES: usize = 20_000;
const _: () = assert!(CUTS + FLIPS + SECOND_CRASHES + FAILURES >= IMAGES);

/// Small, so that a short workload has checkpoints.
const WINDOW: Window = Window { age: Duration::from_secs(300), bytes: 12_000 };

fn options(durability: Durability) -> Options {
    Options { durability, window: WINDOW, quota: None }
}

/// What an opened image must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Opened, with everything acknowledged.
    Everything,
    /// Opened, at any revision that was; nothing seen before is used again.
    SomePast,
    /// The same as everything, or refused in words.
    EverythingOrRefused,
}

/// Opens an image and looks at all of it. Says whether it could be opened.
#[track_caller]
fn check(image: Image, model: &Model, acknowledged: usize, demand: Demand, what: &dyn Fn() -> String) -> bool {
    let disk = Disk::with(image);
    let caller = Location::caller();
    let opened = Store::<()>::open_on(disk.clone(), options(Durability::Sync), &World::simulated(9));
    let store = match opened {
        Ok(store) => store,
        Err(error) => {
            assert!(demand == Demand::EverythingOrRefused, "{caller}: {}: refused: {error}", what());
            assert!(matches!(error, OpenError::Damaged { .. }), "{caller}: {}: {error}", what());
            assert!(error.to_string().contains("concert store restore"), "{error}");
            return false;
        }
    };
    let found = model.compare(&store).unwrap_or_else(|wrong| panic!("{caller}: {}: {wrong}", what()));
    if demand != Demand::SomePast {
        assert!(found >= acknowledged, "{caller}: {}: {found} writes of {acknowledged} acknowledged", what());
    }
    let next = model.write_one_more(&store);
    let seen = model.revision_after(acknowledged);
    assert!(next > seen, "{caller}: {}: revision {next} is used again, {seen} was seen", what());
    true
}

/// Everything that the record allows: the durable image, and any part of what came after the last sync.
struct Cut<'a> {
    durable: &'a Image,
    pending: &'a [Io],
    acknowledged: usize,
}

/// Walks a record and shows each place where power may be lost.
fn each_cut(start: &Image, log: &[Io], mut visit: impl FnMut(usize, Cut<'_>)) {
    let (mut durable, mut since, mut acknowledged) = (start.flattened(), 0, 0);
    for (number, io) in log.iter().enumerate() {
        match io {
            Io::Acknowledged(count) => acknowledged = *count,
            Io::Sync => {
                visit(number, Cut { durable: &durable, pending: &log[since..number], acknowledged });
                log[since..number].iter().for_each(|io| durable.apply(io));
                since = number + 1;
                if number % 64 == 0 {
                    durable = durable.flattened();
                }
            }
            Io::Write(..) | Io::SetLen(_) => {}
        }
        visit(number + 1, Cut { durable: &durable, pending: &log[since..=number], acknowledged });
    }
}

impl Cut<'_> {
    /// Power is lost now and the disk had written all it was given.
    fn whole(&self) -> Image {
        self.some(|_| true)
    }

    fn some(&self, mut keep: impl FnMut(usize) -> bool) -> Image {
        let mut image = self.durable.clone();
        let kept = self.pending.iter().enumerate().filter(|(number, _)| keep(*number));
        kept.for_each(|(_, io)| image.apply(io));
        image
    }

    /// Any sectors of any writes; lengths in any order with them.
    fn torn(&self, dice: &mut Dice) -> Image {
        let mut image = self.durable.clone();
        for io in self.pending {
            match io {
                Io::Write(offset, data) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.below(2) == 0 {
                            image.apply(&Io::Write(offset + (number * SECTOR) as u64, sector.to_vec()));
                        }
                    }
                }
                other => {
                    if dice.below(4) > 0 {
                        image.apply(other);
                    }
                }
            }
        }
        image
    }
}

#[test]
fn power_is_lost_at_any_operation() {
    let mut images = 0;
    for (durability, writes) in
        [(Durability::Sync, 160), (Durability::Interval(Duration::from_millis(5)), 200), (Durability::None, 200)]
    {
        let demand = if durability == Durability::Sync { Demand::Everything } else { Demand::SomePast };
        let Workload { disk, model, .. } = run(Disk::default(), options(durability), writes, 7);
        let (start, log) = disk.record();
        let mut dice = Dice::new(11);
        each_cut(&start, &log, |number, cut| {
            let what = |how: &'static str| move || format!("{durability:?}, cut at {number} of the log, {how}");
            let acknowledged = cut.acknowledged;
            check(cut.whole(), &model, acknowledged, demand, &what("all written"));
            check(cut.torn(&mut dice), &model, acknowledged, demand, &what("torn"));
            images += 2;
            if number % 2 == 0 {
                check(cut.some(|_| dice.below(2) == 0), &model, acknowledged, demand, &what("some written"));
                images += 1;
            }
        });
        println!("{durability:?}: {} operations and acknowledgements", log.len());
    }
    println!("{images} images");
    assert!(images >= CUTS, "{images}");
}

#[test]
fn power_is_lost_again_while_recovering() {
    let Workload { disk, model, .. } = run(Disk::default(), options(Durability::Sync), 200, 3);
    let (start, log) = disk.record();
    let (mut dice, mut images) = (Dice::new(5), 0);
    each_cut(&start, &log, |number, cut| {
        if number % 199 != 0 {
            return;
        }
        let acknowledged = cut.acknowledged;
        let recovering = Disk::with(cut.torn(&mut dice));
        drop(Store::<()>::open_on(recovering.clone(), options(Durability::Sync), &World::simulated(9)).unwrap());
        let (start, log) = recovering.record();
        each_cut(&start, &log, |second, cut| {
            let what = || format!("cut at {number} of the log, and at {second} of recovery");
            check(cut.whole(), &model, acknowledged, Demand::Everything, &what);
            check(cut.torn(&mut dice), &model, acknowledged, Demand::Everything, &what);
            images += 2;
        });
    });
    println!("{images} images");
    assert!(images >= SECOND_CRASHES, "{images}");
}

#[test]
fn a_bit_flips_anywhere() {
    let (mut dice, mut images, mut refused) = (Dice::new(13), 0, 0);
    for closed in [false, true] {
        let workload = run(Disk::default(), options(Durability::Sync), 150, 2);
        let (disk, model, acknowledged) = (workload.disk.clone(), workload.model, workload.acknowledged);
        if closed {
            workload.store.close();
        }
        let image = disk.now().flattened();
        // Every bit of redb's header, and some of everything else that is not zero.
        let header = (0..320 * 8).map(|bit| (bit / 8, u8::try_from(bit % 8).unwrap()));
        let used = image.used_bytes();
        let others: Vec<_> =
            (0..3_000).map(|_| (used[dice.index(used.len())], u8::try_from(dice.below(8)).unwrap())).collect();
        for (byte, bit) in header.chain(others) {
            let mut image = image.clone();
            image.flip(byte, bit);
            let what = || format!("bit {bit} of byte {byte} flipped, closed: {closed}");
            refused += usize::from(!check(image, &model, acknowledged, Demand::EverythingOrRefused, &what));
            images += 1;
        }
    }
    println!("{images} images, {refused} refused");
    assert!(images >= FLIPS && refused > images / 4, "{images}, {refused} refused");
}

#[test]
fn the_disk_fails_at_any_operation() {
    let Workload { disk, .. } = run(Disk::default(), options(Durability::Sync), 60, 4);
    let operations = disk.record().1.iter().filter(|io| !matches!(io, Io::Acknowledged(_))).count();
    let (mut images, mut dice) = (0, Dice::new(17));
    let kinds = [(Failure::Broken, true), (Failure::Broken, false), (Failure::Full, true), (Failure::Short, true)];
    for (how, lasting) in kinds {
        for at in (0..operations).step_by(6) {
            let disk = Disk::default().failing(Fault { at: at + usize::from(lasting), how, lasting });
            let Some(workload) = workload::try_run(disk.clone(), options(Durability::Sync), 60, 4) else {
                assert!(disk.has_failed(), "only a failing disk makes opening fail");
                continue;
            };
            let what = || format!("{how:?} at operation {at}, lasting: {lasting}");
            let (model, acknowledged) = (workload.model, workload.acknowledged);
            if disk.has_failed() {
                let failure = workload.store.failure().unwrap_or_else(|| panic!("{}: nobody noticed", what()));
                let fix = if matches!(how, Failure::Broken) { "check the disk" } else { "make room" };
                assert!(failure.contains(fix), "{}: {failure}", what());
            }
            drop(workload.store);
            assert_eq!(disk.asked_after_failure(), 0, "{}: a failed disk was asked again", what());
            let (start, log) = disk.record();
            let mut last = None;
            each_cut(&start, &log, |number, cut| {
                if number == log.len() {
                    last = Some((cut.whole(), cut.torn(&mut dice)));
                }
            });
            let (whole, torn) = last.unwrap();
            check(whole, &model, acknowledged, Demand::Everything, &what);
            check(torn, &model, acknowledged, Demand::Everything, &what);
            images += 2;
        }
    }
    println!("{images} images of {operations} operations");
    assert!(images >= FAILURES, "{images}");
}
