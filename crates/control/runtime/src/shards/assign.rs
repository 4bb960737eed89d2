//! Which key is in which shard, and which member should hold which shard. Pure, and the same in every replica.

use std::collections::{BTreeMap, BTreeSet};

/// The shard of a key. It may never change for a given number of shards: replicas of different versions meet.
pub(crate) fn shard_of(key: &str, shards: u32) -> u32 {
    let hash = hash([key.as_bytes()]);
    // The upper half of the product spreads evenly over the range.
    u32::try_from((u128::from(hash) * u128::from(shards)) >> 64).unwrap_or(0)
}

/// Who should hold each shard: the member that likes it best and has room. Nobody gets more than his share, rounded
/// up, and few shards move when a member comes or goes.
pub(crate) fn assign(shards: u32, members: &BTreeSet<String>) -> Vec<Option<String>> {
    let share = (shards as usize).div_ceil(members.len().max(1));
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let choose = |shard: u32| {
        let room = members.iter().filter(|member| taken.get(member.as_str()).is_none_or(|count| *count < share));
        let best = room.max_by_key(|member| hash([member.as_bytes(), b"/", &shard.to_le_bytes()]))?;
        *taken.entry(best).or_default() += 1;
        Some(best.clone())
    };
    (0..shards).map(choose).collect()
}

/// FNV-1a, and then mixed until every bit counts.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let bytes = parts.into_iter().flatten();
    let fnv =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(assigned: &[Option<String>]) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for member in assigned.iter().flatten() {
            *counts.entry(member.as_str()).or_default() += 1;
        }
        counts
    }

    #[test]
    fn a_key_never_changes_its_shard() {
        let shards = ["default/a", "default/b", "/a", "a/b"].map(|key| shard_of(key, 16));
        assert_eq!(shards, [11, 6, 14, 7]);
    }

    #[test]
    fn keys_spread_evenly() {
        let mut counts = [0_u32; 16];
        for n in 0..16_000 {
            counts[shard_of(&format!("default/object-{n}"), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn everything_is_assigned_and_nobody_gets_more_than_a_share(
            shards in 1..64_u32, members in prop::collection::btree_set("[a-z]{1,8}", 1..9),
        ) {
            let assigned = assign(shards, &members);
            let share = (shards as usize).div_ceil(members.len());
            prop_assert!(assigned.iter().all(Option::is_some));
            prop_assert!(held(&assigned).values().all(|count| *count <= share));
        }
    }

    #[test]
    fn few_shards_move_when_a_member_goes() {
        let mut members: BTreeSet<String> = (0..8).map(|n| format!("replica-{n}")).collect();
        let before = assign(64, &members);
        members.remove("replica-3");
        let after = assign(64, &members);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!((8..24).contains(&moved), "{moved} of 64 moved, 8 had to");
    }

    #[test]
    fn nobody_holds_what_nobody_is_there_for() {
        assert_eq!(assign(2, &BTreeSet::new()), [None, None]);
    }
}
