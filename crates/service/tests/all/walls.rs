//! What the compiler does not keep: that lanes and administration know no protocol.

use std::fs;
use std::path::Path;

fn files(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push((path.display().to_string(), fs::read_to_string(&path).unwrap().to_lowercase()));
        }
    }
}

#[test]
fn lanes_and_administration_have_no_word_of_a_protocol() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    ["lane", "admin"].iter().for_each(|folder| files(&source.join(folder), &mut all));
    assert!(all.len() > 40, "{}", all.len());
    let words = ["giop", "corba"];
    let wrong: Vec<&str> = all
        .iter()
        .filter(|(_, text)| words.iter().any(|word| text.contains(word)))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(wrong, [""; 0]);
}
