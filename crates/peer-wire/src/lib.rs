//! What nodes say to each other, as bytes.
