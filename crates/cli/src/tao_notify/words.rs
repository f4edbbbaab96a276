//! Words of `svc.conf` directives: a quoted text is one word.

/// Splits a line into words. Quotes of either kind hold a word together; what follows a `#` outside them is a comment.
pub(super) fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (None, '#') => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_one_word_and_a_comment_is_none() {
        assert_eq!(split(r##"static X "-a 1 -b"  'c d' ""# remark"##), ["static", "X", "-a 1 -b", "c d", ""]);
        assert_eq!(split("  # all of it"), Vec::<String>::new());
        assert_eq!(split(r#"a"b c"d"#), ["ab cd"]);
        assert_eq!(split("open 'to the end"), ["open", "to the end"]);
    }
}
