use std::net::Ipv6Addr;

use super::*;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

fn accounts(client_percent: u8, limit: u64, minimum: u64) -> Arc<Accounts> {
    Accounts::new(Ceilings::new(client_percent).with(Resource::Proxies, limit, minimum))
}

/// Takes one after the other until that is refused.
fn take_all(account: &Account) -> (u64, Spent) {
    let mut taken = 0;
    loop {
        match account.take(Resource::Proxies, 1) {
            Ok(()) => taken += 1,
            Err(spent) => return (taken, spent),
        }
    }
}

const LIMIT: Spent = Spent { resource: Resource::Proxies, by: SpentBy::All };
const CLIENT_LIMIT: Spent = Spent { resource: Resource::Proxies, by: SpentBy::Client };

#[test]
fn an_address_that_is_alone_gets_its_percentage_and_the_next_still_finds_room() {
    for (percent, alone) in [(50, 500), (75, 750), (90, 900)] {
        let accounts = accounts(percent, 1000, 0);
        let mut addresses = Addresses::new(&accounts);
        // Every connection for itself gets a share of the address's, and many of them all of it.
        let connections: Vec<_> = (0..20).map(|_| addresses.open(ip(1))).collect();
        let taken: u64 = connections.iter().map(|connection| take_all(connection).0).sum();
        assert!((alone - 1..=alone).contains(&taken), "{percent}: {taken}");
        let (other, spent) = take_all(&addresses.open(ip(2)));
        assert!(other > 0 && spent == CLIENT_LIMIT, "{percent}: {other}, {spent}");
    }
}

#[test]
fn two_that_want_all_end_with_the_same() {
    // The first one gives back as it ends what it began, and cannot take it again while the other is below its share.
    let accounts = accounts(50, 900, 0);
    let mut addresses = Addresses::new(&accounts);
    let (first, second) = (addresses.open(ip(1)), addresses.open(ip(2)));
    let mut have = [take_all(&first).0, take_all(&second).0];
    for _ in 0..1000 {
        first.give(Resource::Proxies, 1);
        have[0] = have[0] - 1 + u64::from(first.take(Resource::Proxies, 1).is_ok());
        have[1] += take_all(&second).0;
    }
    assert!(have[0].abs_diff(have[1]) <= 2, "{have:?}");
}

#[test]
fn one_connection_cannot_take_all_that_its_address_may_have() {
    let accounts = accounts(75, 1300, 0);
    let mut addresses = Addresses::new(&accounts);
    let (greedy, modest) = (addresses.open(ip(1)), addresses.open(ip(1)));
    let (taken, spent) = take_all(&greedy);
    // Three times what is left to the address, which may have three times what is left to all: 9/13.
    assert_eq!((taken, spent), (900, CLIENT_LIMIT));
    assert!(take_all(&modest).0 >= 50);
}

#[test]
fn a_hundred_percent_are_no_quota() {
    let accounts = accounts(100, 1000, 0);
    assert_eq!(take_all(&accounts.account_of(ip(1))), (1000, LIMIT));
    assert_eq!(take_all(&accounts.account_of(ip(2))), (0, LIMIT));
}

#[test]
fn each_address_has_its_minimum_whatever_its_quota() {
    let accounts = accounts(1, 100, 10);
    let all: Vec<_> = (0..10).map(|last| accounts.account_of(ip(last))).collect();
    for account in &all {
        assert_eq!(account.take(Resource::Proxies, 10), Ok(()));
    }
    assert_eq!(all[0].take(Resource::Proxies, 1), Err(LIMIT));
    all[1].give(Resource::Proxies, 10);
    assert_eq!(all[0].take(Resource::Proxies, 1), Err(CLIENT_LIMIT));
}

#[test]
fn a_charge_is_given_back_by_its_drop() {
    let accounts = accounts(100, 10, 0);
    let account = accounts.account_of(ip(1));
    let mut charge = account.charge(Resource::Proxies, 4).unwrap();
    assert_eq!(charge.resize(11), Err(LIMIT));
    assert_eq!((charge.amount(), account.used(Resource::Proxies)), (4, 4));
    charge.resize(10).unwrap();
    charge.resize(7).unwrap();
    assert_eq!((charge.amount(), accounts.used(Resource::Proxies)), (7, 7));
    std::thread::spawn(move || drop(charge)).join().unwrap();
    let have = [account.used(Resource::Proxies), account.used_by_address(Resource::Proxies)];
    assert_eq!((have, accounts.used(Resource::Proxies)), ([0, 0], 0));
}

#[test]
fn connections_of_one_address_are_one_client_and_so_are_the_hosts_of_one_ipv6_network() {
    let accounts = accounts(100, 10, 0);
    let mut addresses = Addresses::new(&accounts);
    let v6 = |text: &str| IpAddr::from(text.parse::<Ipv6Addr>().unwrap());
    for (one, other, same) in [
        (ip(1), ip(1), true),
        (ip(1), ip(2), false),
        (ip(3), v6("::ffff:127.0.0.3"), true),
        (v6("2001:db8:0:1::1"), v6("2001:db8:0:1:ffff::2"), true),
        (v6("2001:db8:0:2::1"), v6("2001:db8:0:3::1"), false),
    ] {
        let (one, other) = (addresses.open(one), addresses.open(other));
        one.take(Resource::Proxies, 1).unwrap();
        assert_eq!(other.used_by_address(Resource::Proxies) == 1, same, "{one:?} {other:?}");
        assert_eq!(other.used(Resource::Proxies), 0);
        one.give(Resource::Proxies, 1);
    }
}

#[test]
fn addresses_that_no_client_comes_from_any_more_are_forgotten() {
    // A host that may choose its address, as each of IPv6 may, connects from another one each time.
    let accounts = accounts(100, u64::MAX, 0);
    let mut addresses = Addresses::new(&accounts);
    let stays = addresses.open(ip(1));
    let kept = addresses.open(ip(2)).charge(Resource::Proxies, 1).unwrap();
    for n in 0..100_000_u32 {
        addresses.open(IpAddr::from(n.to_be_bytes()));
        assert!(addresses.known.len() < 8 && addresses.order.len() == addresses.known.len());
    }
    assert!(addresses.known.contains_key(&stays.ip()) && addresses.known.contains_key(&kept.account().ip()));
}

/// What a model without atomics says of one claim.
fn model(have: &[[u64; 3]; 4], at: (usize, usize), amount: u64, percent: u64, limit: u64, minimum: u64) -> bool {
    let total: u64 = have.iter().flatten().sum();
    let Some(left) = limit.checked_sub(total + amount) else { return false };
    let address = have[at.0].iter().sum::<u64>() + amount;
    let connection = have[at.0][at.1] + amount;
    let fair = |has: u64, left: u64| percent == 100 || has * (100 - percent) <= percent * left;
    let part = if percent == 100 { u64::MAX } else { percent * left / (100 - percent) };
    let address_may = address <= minimum || fair(address, left);
    address_may && (connection <= minimum || fair(connection, part.saturating_sub(address)))
}

#[test]
fn random_claims_follow_the_rule_and_never_pass_the_limit() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (percent, limit, minimum) = (random.u8(1..=100), random.u64(1..2000), random.u64(0..50));
        let accounts = accounts(percent, limit, minimum);
        let mut addresses = Addresses::new(&accounts);
        let connections: [[Arc<Account>; 3]; 4] =
            [1, 2, 3, 4].map(|address| [(); 3].map(|()| addresses.open(ip(address))));
        let mut have = [[0; 3]; 4];
        for _ in 0..500 {
            let at = (random.usize(0..4), random.usize(0..3));
            let account = &connections[at.0][at.1];
            if random.bool() {
                let amount = random.u64(0..=limit / 4 + 1);
                let expected = model(&have, at, amount, percent.into(), limit, minimum);
                assert_eq!(account.take(Resource::Proxies, amount).is_ok(), expected, "seed {seed}: {have:?} {amount}");
                have[at.0][at.1] += if expected { amount } else { 0 };
            } else {
                let amount = random.u64(0..=have[at.0][at.1]);
                account.give(Resource::Proxies, amount);
                have[at.0][at.1] -= amount;
            }
            assert_eq!(accounts.used(Resource::Proxies), have.iter().flatten().sum::<u64>());
            assert!(accounts.used(Resource::Proxies) <= limit);
            assert_eq!(account.used(Resource::Proxies), have[at.0][at.1]);
            assert_eq!(account.used_by_address(Resource::Proxies), have[at.0].iter().sum::<u64>());
        }
    }
}

/// What a client says comes before what the configuration says, is charged as long as the account is there, and is said once.
#[test]
fn a_name_is_charged_until_its_client_is_gone() {
    let accounts = Accounts::new(Ceilings::new(75).with(Resource::RetainedBytes, 1_000, 0));
    let account = accounts.account_of(ip(1));
    assert_eq!(account.identity().name(), None);
    for given in [Some("by address"), Some("by token"), None, None, Some("by address")] {
        account.identity().give_name(given.map(Arc::from).as_ref());
        assert_eq!(account.identity().name().map(AsRef::as_ref), given);
    }
    assert_eq!(account.set_name("archive"), Ok(true));
    assert_eq!(account.set_name("another"), Ok(false));
    assert_eq!(account.identity().name().map(AsRef::as_ref), Some("archive"));
    assert_eq!(accounts.used(Resource::RetainedBytes), 71);
    drop(account);
    assert_eq!(accounts.used(Resource::RetainedBytes), 0);
    let poor = Accounts::new(Ceilings::new(75).with(Resource::RetainedBytes, 70, 0)).account_of(ip(1));
    assert!(poor.set_name("archive").is_err());
    assert_eq!((poor.used(Resource::RetainedBytes), poor.identity().name()), (0, None));
}

#[test]
fn threads_that_claim_at_the_same_time_never_pass_the_limit() {
    let accounts = accounts(90, 1000, 10);
    std::thread::scope(|scope| {
        for last in 0..4 {
            let account = accounts.account_of(ip(last));
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(last.into());
                let mut charges = VecDeque::new();
                for _ in 0..20_000 {
                    charges.extend(account.charge(Resource::Proxies, random.u64(1..200)));
                    assert!(account.accounts().used(Resource::Proxies) <= 1000);
                    if random.bool() {
                        charges.pop_front();
                    }
                }
            });
        }
    });
    assert_eq!(accounts.used(Resource::Proxies), 0);
}
