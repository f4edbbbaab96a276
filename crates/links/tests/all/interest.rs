//! Interest travels back, over lines and rings, and ends.

use std::collections::BTreeSet;

use links::wire::{TYPES_MAX, TypeInterest, Types};
use links::{DISTANCE_MAX, Interest, Published};

type Names<'a> = (&'a [u8], &'a [u8]);
const WIND: Names<'static> = (b"Weather", b"Wind");

fn types(published: &Published) -> Vec<(&[u8], &[u8], u8)> {
    published.entries().map(|each| (each.domain, each.name, each.distance)).collect()
}

fn peer<'a>(domain: &'a [u8], name: &'a [u8], distance: u8) -> [TypeInterest<'a>; 1] {
    [TypeInterest { domain, name, distance }]
}

#[test]
fn a_peer_is_told_the_union_with_the_nearest_distances_but_not_what_it_said_itself() {
    let mut interest = Interest::new();
    assert!(interest.publish_to(1).is_empty());
    assert!(interest.set_own(false, [WIND]) && !interest.set_own(false, [WIND]));
    assert!(interest.set_peer(1, None, peer(b"Weather", b"Rain", 0)));
    assert!(interest.set_peer(2, None, peer(b"Weather", b"Rain", 3)));
    assert!(!interest.set_peer(2, None, peer(b"Weather", b"Rain", 3)), "nothing changed");
    assert_eq!(types(&interest.publish_to(1)), [(&b"Weather"[..], &b"Rain"[..], 4), (b"Weather", b"Wind", 0)]);
    assert_eq!(types(&interest.publish_to(2)), [(&b"Weather"[..], &b"Rain"[..], 1), (b"Weather", b"Wind", 0)]);
    assert!(interest.remove_peer(1) && !interest.remove_peer(1));
    assert_eq!(types(&interest.publish_to(2)), [(&b"Weather"[..], &b"Wind"[..], 0)]);
}

#[test]
fn everything_has_no_types_beside_it_but_those_that_are_nearer() {
    let mut interest = Interest::new();
    interest.set_peer(1, Some(2), peer(b"Weather", b"Wind", 3));
    interest.set_peer(2, None, peer(b"Weather", b"Rain", 0));
    let published = interest.publish_to(9);
    assert_eq!((published.everything, types(&published)), (Some(3), vec![(&b"Weather"[..], &b"Rain"[..], 1)]));
    interest.set_own(true, []);
    let published = interest.publish_to(9);
    assert_eq!((published.everything, types(&published)), (Some(0), vec![]));
}

#[test]
fn what_is_eight_links_away_is_dropped_whatever_distance_a_peer_says() {
    let mut interest = Interest::new();
    for distance in [DISTANCE_MAX - 1, DISTANCE_MAX, u8::MAX] {
        interest.set_peer(1, Some(distance), peer(b"Weather", b"Wind", distance));
        assert!(interest.publish_to(2).is_empty());
    }
    interest.set_peer(1, Some(DISTANCE_MAX - 2), []);
    assert_eq!(interest.publish_to(2).everything, Some(DISTANCE_MAX - 1));
}

#[test]
fn more_types_than_a_frame_has_are_everything() {
    let names: Vec<Vec<u8>> = (0..=TYPES_MAX).map(|number| number.to_string().into_bytes()).collect();
    let mut interest = Interest::new();
    interest.set_own(false, names[..TYPES_MAX].iter().map(|name| (&b"d"[..], &name[..])));
    let published = interest.publish_to(1);
    let entries: Vec<TypeInterest<'_>> = published.entries().collect();
    assert_eq!((published.everything, entries.len()), (None, TYPES_MAX));
    assert!(Types::new(&entries).is_ok());
    interest.set_own(false, names.iter().map(|name| (&b"d"[..], &name[..])));
    let published = interest.publish_to(1);
    assert_eq!((published.everything, types(&published)), (Some(0), vec![]));
    let long = vec![b'n'; 100 << 10];
    let long = [(&b"1"[..], &long[..]), (b"2", &long), (b"3", &long)];
    interest.set_own(false, long);
    assert_eq!(interest.publish_to(1).everything, Some(0), "by their octets");
}

/// Services whose channel is linked, and what each link's ends said last.
struct Mesh {
    services: Vec<Interest>,
    links: Vec<[usize; 2]>,
}

impl Mesh {
    /// One round in which everyone tells all its peers. True if anything changed.
    fn round(&mut self) -> bool {
        let both = self.links.iter().flat_map(|&[a, b]| [[a, b], [b, a]]);
        let said: Vec<_> = both.map(|[from, to]| (from, to, self.services[from].publish_to(to as u64))).collect();
        let change = |(from, to, published): &(usize, usize, Published)| {
            self.services[*to].set_peer(*from as u64, published.everything, published.entries())
        };
        said.iter().map(change).fold(false, |any, changed| any | changed)
    }

    /// The services that say to a neighbour of theirs that they are to have the type, by their distance to where it is.
    fn interested(&self) -> BTreeSet<(usize, u8)> {
        let both = self.links.iter().flat_map(|&[a, b]| [[a, b], [b, a]]);
        let said = both.filter_map(|[from, to]| {
            let published = self.services[from].publish_to(to as u64);
            Some((from, types(&published).first()?.2))
        });
        said.collect()
    }
}

#[test]
fn a_ring_has_interest_everywhere_and_forgets_it_within_eight_rounds_after_the_last_consumer() {
    for size in 2..=5 {
        let links = (0..size).map(|at| [at, (at + 1) % size]).take(if size == 2 { 1 } else { size }).collect();
        let mut mesh = Mesh { services: (0..size).map(|_| Interest::new()).collect(), links };
        mesh.services[0].set_own(false, [WIND]);
        let rounds = (0..).take_while(|_| mesh.round()).count();
        assert!(rounds <= usize::from(DISTANCE_MAX), "{size} services: {rounds} rounds until all know");
        if size > 2 {
            assert!((0..size).all(|at| mesh.interested().iter().any(|(who, _)| *who == at)), "{size} services");
        }
        mesh.services[0].set_own(false, []);
        let rounds = (0..).take_while(|_| mesh.round()).count();
        assert!(rounds <= usize::from(DISTANCE_MAX), "{size} services: {rounds} rounds until all forgot");
        assert!(mesh.interested().is_empty());
    }
}

#[test]
fn distances_in_a_random_mesh_are_those_of_the_shortest_way() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let size = random.usize(2..8);
        let mut links: Vec<[usize; 2]> = (1..size).map(|at| [random.usize(..at), at]).collect();
        links.extend((0..random.usize(..4)).map(|_| [random.usize(..size), random.usize(..size)]));
        links.retain(|[a, b]| a != b);
        let mut mesh = Mesh { services: (0..size).map(|_| Interest::new()).collect(), links };
        let consumer = random.usize(..size);
        mesh.services[consumer].set_own(false, [WIND]);
        while mesh.round() {}
        let mut shortest = vec![u8::MAX; size];
        shortest[consumer] = 0;
        for _ in 0..size {
            for &[a, b] in &mesh.links {
                shortest[a] = shortest[a].min(shortest[b].saturating_add(1));
                shortest[b] = shortest[b].min(shortest[a].saturating_add(1));
            }
        }
        for &[a, b] in &mesh.links {
            for (from, to) in [(a, b), (b, a)] {
                let published = mesh.services[from].publish_to(to as u64);
                let said = types(&published).first().map(|each| each.2);
                if shortest[from] < shortest[to] {
                    assert_eq!(said, Some(shortest[from]), "seed {seed}: {from} to {to}");
                }
                assert!(said.is_none_or(|said| said >= shortest[from]), "seed {seed}: {from} to {to}");
            }
        }
        mesh.services[consumer].set_own(false, []);
        while mesh.round() {}
        assert!(mesh.interested().is_empty(), "seed {seed}");
    }
}
