//! The statuses that the comment of each function in the header names. Used by tests of the C ABI inside and outside of the library.

use std::collections::{BTreeMap, BTreeSet};

/// For each function the codes of statuses that its comment in `header` names, and of those that comments name to which it refers as
/// "as `function`" or "those of `function`". A function that "Returns `status`" may return any error. `statuses` are names and codes.
pub fn documented(header: &str, statuses: &[(&str, i32)]) -> BTreeMap<String, BTreeSet<i32>> {
    let mut comments = BTreeMap::new();
    for (at, _) in header.match_indices("\nterrace_status terrace_") {
        let name = header[at + 16..].split('(').next().unwrap_or_default().to_string();
        let begin = header[..at].rfind("/**").expect("every function has a comment");
        comments.insert(name, header[begin..at].replace("\n *", ""));
    }
    let named = |comment: &str| -> BTreeSet<i32> {
        let any = comment.contains("Returns `status`");
        let is_named = |(name, code): &&(&str, i32)| comment.contains(&format!("`{name}`")) || any && *code < 0;
        statuses.iter().filter(is_named).map(|(_, code)| *code).collect()
    };
    let mut codes: BTreeMap<String, BTreeSet<i32>> =
        comments.iter().map(|(name, comment)| (name.clone(), named(comment))).collect();
    let refers = |comment: &str, name: &str| {
        [format!("those of `{name}`"), format!("as `{name}`")].iter().any(|text| comment.contains(text))
    };
    // References of references, of which there are not many.
    for _ in 0..4 {
        let before = codes.clone();
        for (name, comment) in &comments {
            for (_, of_other) in before.iter().filter(|(other, _)| refers(comment, other)) {
                codes.get_mut(name).expect("it is one of them").extend(of_other);
            }
        }
    }
    for codes in codes.values_mut() {
        codes.insert(0);
    }
    codes
}
