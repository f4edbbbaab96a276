//! The console's files for browsers, as they are beside this module. Nothing is built, and nothing is loaded from other hosts.

use std::sync::LazyLock;

use hyper::body::Bytes;

use crate::http::{self, Answer};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A row of the engine's table of properties.
struct Row {
    help: &'static [&'static str],
    side: &'static str,
    key: &'static str,
    kind: &'static str,
    /// Name, levels and range of a property that can be set.
    settable: &'static [(&'static str, &'static str, &'static [&'static str])],
}

macro_rules! rows {
    ($({
        $(#[doc = $doc:literal])* $side:ident $field:ident: $type:tt stored [$key:ident: $kind:ty]
        property [$($name:literal $number:literal $levels:ident $(($low:expr, $high:expr))?)?]
        $($drawn:tt)*
    })*) => {
        &[$(Row {
            help: &[$($doc),*],
            side: stringify!($side),
            key: stringify!($key),
            kind: stringify!($kind),
            settable: &[$(($name, stringify!($levels), &[$(stringify!($low), stringify!($high))?])),*],
        }),*]
    };
}

const ROWS: &[Row] = engine::properties!(rows);

/// The properties that can be set, with the console's description of each, as a script.
static PROPERTIES: LazyLock<String> = LazyLock::new(|| {
    let rows = ROWS.iter().flat_map(|row| row.settable.iter().map(move |settable| (row, settable)));
    let property = |(row, (name, levels, range)): (&Row, &(&str, &str, &[&str]))| {
        let help = row.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        // What documentation links to is code.
        let help = help.replace("[`", "`").replace("`](", "` (").replace("`]", "`");
        serde_json::json!({
            "name": name, "key": row.key, "kind": row.kind, "side": row.side, "levels": levels, "range": range, "help": help,
        })
    };
    let all: serde_json::Value = rows.map(property).collect();
    format!("export const PROPERTIES = {all};\n")
});

/// Path, kind and text of each file.
const FILES: [(&str, &str, &str); 27] = [
    ("/", HTML, include_str!("pages/index.html")),
    ("/icon.svg", "image/svg+xml", include_str!("pages/icon.svg")),
    ("/console.css", STYLE, include_str!("pages/console.css")),
    ("/console.js", SCRIPT, include_str!("pages/console.js")),
    ("/address.js", SCRIPT, include_str!("pages/address.js")),
    ("/service.js", SCRIPT, include_str!("pages/service.js")),
    ("/dom.js", SCRIPT, include_str!("pages/dom.js")),
    ("/dialogs.js", SCRIPT, include_str!("pages/dialogs.js")),
    ("/plots.js", SCRIPT, include_str!("pages/plots.js")),
    ("/overview.js", SCRIPT, include_str!("pages/overview.js")),
    ("/consumers.js", SCRIPT, include_str!("pages/consumers.js")),
    ("/suppliers.js", SCRIPT, include_str!("pages/suppliers.js")),
    ("/channels.js", SCRIPT, include_str!("pages/channels.js")),
    ("/things.js", SCRIPT, include_str!("pages/things.js")),
    ("/qos.js", SCRIPT, include_str!("pages/qos.js")),
    ("/lists.js", SCRIPT, include_str!("pages/lists.js")),
    ("/search.js", SCRIPT, include_str!("pages/search.js")),
    ("/lanes.js", SCRIPT, include_str!("pages/lanes.js")),
    ("/links.js", SCRIPT, include_str!("pages/links.js")),
    ("/protocols.js", SCRIPT, include_str!("pages/protocols.js")),
    ("/journal.js", SCRIPT, include_str!("pages/journal.js")),
    ("/json.js", SCRIPT, include_str!("pages/json.js")),
    ("/events.js", SCRIPT, include_str!("pages/events.js")),
    ("/graph.js", SCRIPT, include_str!("pages/graph.js")),
    ("/history.js", SCRIPT, include_str!("pages/history.js")),
    ("/uplot/uPlot.js", SCRIPT, include_str!("pages/uplot/uPlot.iife.min.js")),
    ("/uplot/uPlot.css", STYLE, include_str!("pages/uplot/uPlot.min.css")),
];

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<Answer> {
    if path == "/properties.js" {
        return Some(http::whole(SCRIPT, Bytes::from_static(PROPERTIES.as_bytes())));
    }
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(http::whole(kind, Bytes::from_static(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_its_range_and_help_from_the_engines_table() {
        let text =
            PROPERTIES.strip_prefix("export const PROPERTIES = ").and_then(|text| text.strip_suffix(";\n")).unwrap();
        let all: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        assert!(all.len() > 25 && all.iter().all(|known| known["help"].as_str().unwrap().len() > 20), "{text}");
        let window = all.iter().find(|known| known["name"] == "PushWindow").unwrap();
        assert_eq!(
            (&window["key"], &window["kind"], &window["range"][0]),
            (&"push_window".into(), &"u16".into(), &"1".into())
        );
    }

    /// Pages load nothing from other hosts and send nothing there.
    #[test]
    fn pages_name_no_other_host_and_are_licensed() {
        for (path, _, text) in FILES {
            let text = text.replace("https://github.com/leeoniya/uPlot", "").replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
            if !path.starts_with("/uplot/") {
                assert!(!text.contains("innerHTML") && !text.contains("insertAdjacentHTML"), "{path}");
                assert!(!text.contains(" style=") && !text.contains("onclick="), "{path}");
            }
        }
        assert!(include_str!("pages/uplot/LICENSE").contains("MIT License"));
    }
}
