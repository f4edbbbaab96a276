//! An object reference, as octets and as text.
#![no_main]

use giop::cdr::{Encoding, Endian, Reader, Writer};
use giop::ior::Ior;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(mut reader) = Reader::over_encapsulation(data)
        && let Ok(reference) = Ior::read(&mut reader)
    {
        same_again(&reference);
    }
    if let Ok(text) = core::str::from_utf8(data)
        && let Ok(reference) = text.parse::<Ior>()
    {
        same_again(&reference);
    }
});

fn same_again(reference: &Ior) {
    let _ =
        reference.iiop().map(|profile| (profile.code_sets(), profile.priority_model(), profile.addresses().count()));
    assert_eq!(reference.to_string().parse::<Ior>().as_ref(), Ok(reference));
    for endian in [Endian::Big, Endian::Little] {
        let encoding = Encoding::new(endian);
        let mut bytes = Vec::new();
        reference.write(&mut Writer::new(&mut bytes, encoding));
        let mut reader = Reader::new(&bytes, encoding);
        assert_eq!(Ior::read(&mut reader).as_ref(), Ok(reference));
        reader.finish("the reference").unwrap();
        let mut reader = Reader::new(&bytes, encoding);
        Ior::skip(&mut reader).unwrap();
        assert!(reader.is_empty());
    }
}
