//! IDL: whatever it is, it is understood or refused with a place and a reason, and what is understood comes back from its text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match idl::read(text) {
        Ok(definitions) => {
            for definition in definitions.iter().take(16) {
                let shown = idl::text(definition.code());
                // Where there are two of one name, in modules that a prefix looks like, IDL has no text for it.
                if let Ok(again) = idl::read(&shown)
                    && let Ok(found) = again.find(definition.code().id())
                {
                    assert_eq!(found.code(), definition.code(), "{shown}");
                }
            }
        }
        Err(error) => assert!(error.line >= 1 && error.column >= 1 && !error.to_string().is_empty()),
    }
});
