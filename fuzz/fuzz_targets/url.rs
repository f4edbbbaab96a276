//! Text that refers to an object.
#![no_main]

use giop::url::Url;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(url) = text.parse::<Url>() else {
        return;
    };
    let shown = url.to_string();
    assert_eq!(shown.parse::<Url>().as_ref(), Ok(&url), "{shown}");
    match &url {
        Url::Corbaloc(location) | Url::Corbaname { location, .. } => {
            let _ = location.to_ior("IDL:omg.org/CORBA/Object:1.0");
        }
        Url::Ior(_) => {}
    }
});
