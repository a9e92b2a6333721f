//! Data outlives the batch it came from.

//~ error: `Data` values outlive the batch they came from and cannot borrow: hold a `String` instead of a `&str`

use thalweg::Data;

#[derive(Data)]
struct Line<'a> {
    text: &'a str,
}

fn main() {
    println!("{}", Line { text: "" }.text);
}
