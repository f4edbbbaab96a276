//! What each carrier does while its far service is cut off: persistent events, and a cable that is pulled.

use serde_json::{Value, json};

use super::{DIRECT, Site, WAYS, ZENOH, channels, far_listens, link_to, near_session};
use crate::links::line::Flow;
use crate::links::nodes::Node;
use crate::links::subscribers::Subscribers;
use crate::links::{CUTS, Cut, Found, Linked, Means, RECOVERY_MS_MAX};
use crate::report::add;
use crate::{BenchError, Options, Output};

const PERSISTENT: &str = "[channels.properties]\nEventReliability = 1\nMemoryBudget = 16777216\n";
/// The number of the node with the far service.
const NODE: u8 = 200;

/// Has each carrier cut in turn, between two services of its own.
pub(super) fn cuts(options: &Options, out: &mut Output<'_>, found: &mut Found) -> Result<Value, BenchError> {
    let (here, there) = (Node::here(), Node::start(NODE)?);
    let mut all = Vec::new();
    for way @ (name, _) in WAYS.iter().filter(|(name, _)| *name != DIRECT) {
        out.progress(&format!("cuts, {name}"))?;
        let channel = channels([*name], PERSISTENT);
        let far = Site::start(&there, "cut-far", options, &(channel.clone() + &far_listens(&there)))?;
        let near = channel + "[links.datagrams]\nkey_file = \"KEY\"\n" + &near_session(name) + &link_to(&far, 0, *way);
        let near = Site::start(&here, "cut-near", options, &near)?;
        let subscribers = Subscribers::elsewhere(&[far.place(&far.side)?], 1, 1)?;
        let channel = near.side.channel(1)?;
        subscribers.join(&channel)?;
        let set_cable = |flow| there.set_cable(flow == Flow::Everything);
        let linked = Linked { near: near.side.serving()?, far: far.side.serving()?, line: &set_cable };
        // A cable has no connections that it could close.
        let cuts = CUTS.iter().filter(|Cut { means, flaps, .. }| *means != Means::Line(Flow::Closed) || *flaps);
        let most_ms = match *name {
            // The far service is tried again after 30 s at most.
            "iiop" => None,
            ZENOH => Some(RECOVERY_MS_MAX.1),
            _ => Some(RECOVERY_MS_MAX.0),
        };
        let mut of_one = Found::default();
        let mut cut = linked.cut(cuts, (&channel, &subscribers), most_ms, options, &mut of_one)?;
        let Found { lost, twice, disordered, .. } = of_one;
        add(&mut cut, json!({"carrier": name, "lost": lost, "twice": twice, "disordered": disordered}));
        // A service that knows no links gets events at least once.
        let twice = if *name == "iiop" { 0 } else { twice };
        found.take(name, Found { twice, ..of_one });
        all.push(cut);
    }
    Ok(json!({"cuts": all, "cut_seconds": options.seconds}))
}
