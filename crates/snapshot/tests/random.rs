//! Random values and random damage.

mod common;

use millpond_snapshot::pickle::{read, write};
use millpond_snapshot::{Plain, Snapshot, ValueId, Values};
use proptest::prelude::*;

/// A plain value as a tree.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    Bytes(Vec<u8>),
    List(Vec<Tree>),
    Tuple(Vec<Tree>),
    Dict(Vec<(String, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::None),
        any::<bool>().prop_map(Tree::Bool),
        any::<u64>().prop_map(|value| Tree::Int(value.into())),
        any::<i64>().prop_map(|value| Tree::Int(value.into())),
        (-70_000..70_000_i128).prop_map(Tree::Int),
        (-1e9..1e9_f64).prop_map(Tree::Float),
        ".{0,300}".prop_map(Tree::Str),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Tree::Bytes),
    ];
    leaf.prop_recursive(5, 200, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::List),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::Tuple),
            prop::collection::btree_map("[a-z]{0,9}", inner, 0..6)
                .prop_map(|map| Tree::Dict(map.into_iter().collect())),
        ]
    })
}

fn put(values: &mut Values, tree: &Tree) -> ValueId {
    match tree {
        Tree::None => values.none(),
        Tree::Bool(value) => values.bool(*value),
        Tree::Int(value) => values.int(*value),
        Tree::Float(value) => values.float(*value),
        Tree::Str(text) => values.str(text),
        Tree::Bytes(bytes) => values.bytes(bytes),
        Tree::List(items) => {
            let items: Vec<ValueId> = items.iter().map(|item| put(values, item)).collect();
            values.list(&items)
        }
        Tree::Tuple(items) => {
            let items: Vec<ValueId> = items.iter().map(|item| put(values, item)).collect();
            values.tuple(&items)
        }
        Tree::Dict(pairs) => {
            let mut items = Vec::new();
            for (key, value) in pairs {
                items.extend([values.str(key), put(values, value)]);
            }
            values.dict(&items)
        }
    }
}

fn get(values: &Values, id: ValueId) -> Tree {
    let all = |items: &[ValueId]| items.iter().map(|&item| get(values, item)).collect();
    match values.get(id) {
        Plain::None => Tree::None,
        Plain::Bool(value) => Tree::Bool(value),
        Plain::Int(value) => Tree::Int(value),
        Plain::Float(value) => Tree::Float(value),
        Plain::Str(text) => Tree::Str(text.into()),
        Plain::Bytes(bytes) => Tree::Bytes(bytes.into()),
        Plain::List(items) => Tree::List(all(items)),
        Plain::Tuple(items) => Tree::Tuple(all(items)),
        Plain::Dict(items) => Tree::Dict(
            items.chunks(2).map(|pair| (values.text(pair[0]).unwrap().into(), get(values, pair[1]))).collect(),
        ),
    }
}

proptest! {
    #[test]
    fn values_survive_writing_and_reading(tree in tree()) {
        let mut values = Values::default();
        let root = put(&mut values, &tree);
        prop_assert_eq!(&get(&values, root), &tree);
        let mut file = Vec::new();
        write(&values, root, &mut file).unwrap();
        let (again, root) = read(&file).unwrap();
        prop_assert_eq!(&get(&again, root), &tree);
    }

    #[test]
    fn damaged_values_never_panic(
        tree in tree(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut values = Values::default();
        let root = put(&mut values, &tree);
        let mut file = Vec::new();
        write(&values, root, &mut file).unwrap();
        for (index, byte) in damage {
            let at = index.index(file.len());
            file[at] = byte;
        }
        if let Ok((values, root)) = read(&file) {
            let mut again = Vec::new();
            write(&values, root, &mut again).unwrap();
            prop_assert!(read(&again).is_ok());
        }
    }

    #[test]
    fn random_bytes_never_panic(mut file in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Snapshot::from_bytes(&file);
        file.insert(0, b']');
        let _ = Snapshot::from_bytes(&file);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_snapshots_never_panic_and_read_back_equal(
        which in 0..2_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = std::fs::read(&common::examples()[which]).unwrap();
        for (index, byte) in damage {
            let at = index.index(file.len());
            file[at] = byte;
        }
        if let Ok(snapshot) = Snapshot::from_bytes(&file) {
            snapshot.summary();
            let again = Snapshot::from_bytes(&common::written(&snapshot)).unwrap();
            prop_assert!(again == snapshot);
        }
    }
}
