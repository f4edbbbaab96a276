//! What a browser is given: the console, as it stands in the files beside this one. Nothing is built, and nothing comes from elsewhere.

use hyper::body::Bytes;

use crate::http::{self, Answer};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! names {
    ($({
        $(#[$doc:meta])* $side:ident $field:ident: $type:tt stored $stored:tt property [$($name:literal $($rest:tt)*)?]
        $($drawn:tt)*
    })*) => {
        concat!(
            "export const PROPERTIES = [", $($("\"", $name, "\", ",)?)*
            "\"MaxQueueLength\", \"MaxConsumers\", \"MaxSuppliers\", \"RejectNewEvents\"];\n",
        )
    };
}

/// Path, kind and text of each file.
const FILES: [(&str, &str, &str); 17] = [
    ("/", HTML, include_str!("pages/index.html")),
    ("/icon.svg", "image/svg+xml", include_str!("pages/icon.svg")),
    ("/console.css", STYLE, include_str!("pages/console.css")),
    ("/console.js", SCRIPT, include_str!("pages/console.js")),
    ("/service.js", SCRIPT, include_str!("pages/service.js")),
    ("/dom.js", SCRIPT, include_str!("pages/dom.js")),
    ("/dialogs.js", SCRIPT, include_str!("pages/dialogs.js")),
    ("/properties.js", SCRIPT, engine::properties!(names)),
    ("/plots.js", SCRIPT, include_str!("pages/plots.js")),
    ("/overview.js", SCRIPT, include_str!("pages/overview.js")),
    ("/consumers.js", SCRIPT, include_str!("pages/consumers.js")),
    ("/channels.js", SCRIPT, include_str!("pages/channels.js")),
    ("/lanes.js", SCRIPT, include_str!("pages/lanes.js")),
    ("/json.js", SCRIPT, include_str!("pages/json.js")),
    ("/events.js", SCRIPT, include_str!("pages/events.js")),
    ("/uplot/uPlot.js", SCRIPT, include_str!("pages/uplot/uPlot.iife.min.js")),
    ("/uplot/uPlot.css", STYLE, include_str!("pages/uplot/uPlot.min.css")),
];

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<Answer> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(http::whole(kind, Bytes::from_static(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing of what is served may come from, or go to, another host.
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
