//! Any bytes, cut into splits of any size and read through a buffer of any size: every line comes
//! out once, in order, as the standard library finds it in the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::io::files::{BlockSizes, LineBlocks, Utf8, expand_inputs, plan_splits};

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (split_bytes, block_bytes, bytes) = input;
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-lines-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let files = expand_inputs([&path]).expect("the file is there");
    let sizes = BlockSizes { block_bytes: usize::from(block_bytes).max(1), ..Default::default() };
    let mut found = Vec::new();
    for split in plan_splits(&files, u64::from(split_bytes).max(1)) {
        let mut blocks = LineBlocks::open(&files[split.file], split, sizes, Utf8::Replace)
            .expect("the file can be opened");
        while let Some(block) = blocks.next_block().expect("bytes are replaced, never refused") {
            found.extend(block.lines().map(str::to_owned));
        }
    }
    std::fs::remove_file(&path).expect("the file can be removed");
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    assert_eq!(found, text.lines().collect::<Vec<_>>());
});
