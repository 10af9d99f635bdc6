//! Who owns a token, whether enough replicas live, deadlines.
