//! Structs as rows: every type of field there and back, columns in another order than fields, and
//! what is said where table and struct do not go together.
#![allow(clippy::unwrap_used)]

use mmdb::{Column, ColumnType, Database, Decimal, Error, Record, Records, Schema, Value};

mmdb::record! {
    #[derive(Clone, Debug, PartialEq)]
    struct All {
        small: i16,
        middle: i32,
        large: i64,
        unsigned: u32,
        long: u64,
        float: f64,
        truth: bool,
        digest: [u8; 4],
        price: Decimal as Decimal(2),
        at: i64 as Time,
        name: String as VarText(40),
        code: String as FixedText(8),
        bytes: Vec<u8> as VarBytes(40),
        maybe: Option<u64>,
        body: Option<String> as VarText(40),
        due: Option<i64> as Time,
    }
}

fn all(long: u64) -> All {
    All {
        small: i16::MIN,
        middle: i32::MAX,
        large: i64::MIN,
        unsigned: u32::MAX,
        long,
        float: -0.5,
        truth: true,
        digest: *b"\0abc",
        price: "-1.25".parse().unwrap(),
        at: -7,
        name: "Čapek".into(),
        code: String::new(),
        bytes: vec![0, 255],
        maybe: None,
        body: Some("grüezi".into()),
        due: Some(i64::MAX),
    }
}

#[test]
fn every_field_reads_back() {
    let db = Database::in_memory().unwrap();
    let schema =
        All::schema("t").primary_key(&["long", "small"]).ordered_index("by_float", &["float", "long"]);
    let table = db.create_table(schema).unwrap();
    let rows = Records::<All>::of(&table).unwrap();
    let (one, two) = (all(u64::MAX), All { float: f64::NEG_INFINITY, maybe: Some(9), body: None, ..all(2) });
    db.run(|tx| rows.insert(tx, &one).and_then(|()| rows.insert(tx, &two))).unwrap();
    let mut tx = db.begin().unwrap();
    let key = [Value::UInt(u64::MAX), Value::Int(i16::MIN.into())];
    assert_eq!(rows.get(&mut tx, &key).unwrap(), Some(one.clone()));
    assert_eq!(rows.get(&mut tx, &[3.into(), 4.into()]).unwrap(), None);
    let by_float: Result<Vec<All>, _> =
        rows.range::<[Value<'_>; 0]>(&mut tx, "by_float", ..).unwrap().collect();
    assert_eq!(by_float.unwrap(), [two.clone(), one.clone()]);
    // What is updated is what is no key.
    let changed = All { name: "x".into(), due: None, price: Decimal::from(2), ..two.clone() };
    assert!(rows.update(&mut tx, &changed).unwrap());
    assert!(!rows.update(&mut tx, &all(5)).unwrap(), "it is not there");
    assert!(rows.upsert(&mut tx, &one).unwrap());
    assert!(rows.delete(&mut tx, &one).unwrap());
    assert_eq!(rows.scan(&mut tx).unwrap().collect::<Result<Vec<_>, _>>().unwrap(), [changed]);
}

mmdb::record! {
    #[derive(Debug, PartialEq)]
    struct Message { id: u64, body: Option<String> as VarText(9), tries: u32 }
}

/// Columns that were declared in another order, and one that came later.
#[test]
fn fields_find_their_columns_by_name() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").nullable("body", ColumnType::VarText(9)).column("id", ColumnType::UInt64);
    let table = db.create_table(schema.primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&table, &["old".into(), 1.into()])).unwrap();
    assert!(matches!(Records::<Message>::of(&table), Err(Error::SchemaDiffers { .. })));
    let tries = Column { name: "tries".into(), kind: ColumnType::UInt32, nullable: false };
    let table = db.add_column(&table, tries, 7.into()).unwrap();
    let messages = Records::<Message>::of(&table).unwrap();
    let message = |id, body: Option<&str>, tries| Message { id, body: body.map(str::to_owned), tries };
    db.run(|tx| messages.insert(tx, &message(2, None, 1))).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(messages.get(&mut tx, &[1.into()]).unwrap(), Some(message(1, Some("old"), 7)));
    assert!(messages.update(&mut tx, &message(2, Some("new"), 2)).unwrap());
    let row = tx.get(&table, &[2.into()]).unwrap().unwrap();
    assert_eq!(row.to_json(), r#"{"body":"new","id":2,"tries":2}"#);
    drop(tx);

    // A column that comes later leaves the handle whole; one that goes does not.
    let more = Column { name: "more".into(), kind: ColumnType::Bool, nullable: false };
    let wider = db.add_column(&table, more, true.into()).unwrap();
    db.run(|tx| messages.insert(tx, &message(3, None, 3))).unwrap();
    assert_eq!(messages.get(&mut db.begin().unwrap(), &[3.into()]).unwrap(), Some(message(3, None, 3)));
    let e = Records::<Message>::of(&wider).unwrap_err().to_string();
    assert_eq!(e, "table t is there, and differs: column more is no field of Message");
    db.drop_column(&wider, "body").unwrap();
    let gone = db.run(|tx| messages.insert(tx, &message(4, None, 3)));
    assert!(matches!(gone, Err(Error::TableChanged { .. })), "{gone:?}");
}

/// What happened: of a handle that was made before the last column came, the structs had all
/// columns and the handle had one fewer. When another column came, a struct was refused as a row of
/// neither number of columns.
#[test]
fn a_handle_of_before_gives_structs_with_todays_columns() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::UInt64).nullable("body", ColumnType::VarText(9));
    let before = db.create_table(schema.primary_key(&["id"])).unwrap();
    let add = |name: &str| {
        let column = Column { name: name.into(), kind: ColumnType::UInt32, nullable: false };
        db.add_column(&before, column, 7.into()).unwrap()
    };
    add("tries");
    let messages = Records::<Message>::of(&before).unwrap();
    let message = |id| Message { id, body: None, tries: 1 };
    db.run(|tx| messages.insert(tx, &message(1))).unwrap();
    let now = add("more");
    db.run(|tx| messages.insert(tx, &message(2))).unwrap();
    assert!(db.run(|tx| messages.update(tx, &message(2))).unwrap());
    let row = db.begin().unwrap().get(&now, &[2.into()]).unwrap().unwrap();
    assert_eq!(row.to_json(), r#"{"id":2,"body":null,"tries":1,"more":7}"#);
}

#[test]
fn what_does_not_go_together_is_named() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("body", ColumnType::VarText(9));
    let table = db.create_table(schema.primary_key(&["id"])).unwrap();
    let e = Records::<Message>::of(&table).unwrap_err().to_string();
    let want = "table t is there, and differs: column id is Int64, and field id of Message is UInt64; \
        column body is VarText(9), and field body of Message is VarText(9) or NULL; \
        there is no column tries for field tries of Message";
    assert_eq!(e, want);
    // A row of another table.
    db.run(|tx| tx.insert(&table, &[(-1).into(), "x".into()])).unwrap();
    let other = db.create_table(Message::schema("other").primary_key(&["id"])).unwrap();
    let messages = Records::<Message>::of(&other).unwrap();
    let row = db.begin().unwrap().get(&table, &[(-1).into()]).unwrap().unwrap();
    let e = messages.read(row.view()).unwrap_err().to_string();
    assert_eq!(e, "table other, column id: -1 is no value for the field of Message");
}

/// The rows of a cursor could be changed as values only, whose columns had to be named.
#[test]
fn the_row_at_a_cursor_of_structs_is_changed_and_deleted() {
    let db = Database::in_memory().unwrap();
    let schema = Message::schema("t").primary_key(&["id"]).ordered_index("by_tries", &["tries"]);
    let messages = Records::<Message>::of(&db.create_table(schema).unwrap()).unwrap();
    let message = |id, tries| Message { id, body: None, tries };
    db.run(|tx| (0..6u64).try_for_each(|id| messages.insert(tx, &message(id, id as u32)))).unwrap();
    db.run(|tx| {
        // Some of them are the transaction's own.
        messages.insert(tx, &message(6, 6))?;
        messages.update(tx, &message(2, 2))?;
        let mut cursor = messages.all(tx, "by_tries")?;
        assert!(matches!(cursor.update(&message(0, 0)), Err(Error::Operation { .. })), "it is on no row");
        while let Some(there) = cursor.next().transpose()? {
            let e = cursor.update(&message(there.id + 1, 0)).unwrap_err();
            let words = format!("its primary key is ({}), and ({}) was given", there.id, there.id + 1);
            assert!(matches!(&e, Error::Operation { reason, .. } if *reason == words), "{e}");
            match there.id % 2 {
                0 => assert!(cursor.update(&message(there.id, there.tries + 10))?),
                _ => assert!(cursor.delete()? && !cursor.delete()?),
            }
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    let all: Vec<Message> =
        messages.all(&mut db.begin().unwrap(), "by_tries").unwrap().map(Result::unwrap).collect();
    assert_eq!(all, [message(0, 10), message(2, 12), message(4, 14), message(6, 16)]);
}

mmdb::record! {
    #[derive(Debug, PartialEq)]
    struct Typed { id: u64, r#type: String as VarText(10) }
}

/// A field that is called as a word of Rust was a column with the mark that Rust wants there: no
/// struct could have the rows of a table whose column is called `type`.
#[test]
fn a_field_that_is_called_as_a_word_of_rust_is_the_column_of_that_name() {
    let db = Database::in_memory().unwrap();
    let schema = Schema::new("t").column("id", ColumnType::UInt64).column("type", ColumnType::VarText(10));
    let table = db.create_table(schema.primary_key(&["id"])).unwrap();
    let rows = Records::<Typed>::of(&table).unwrap();
    let one = Typed { id: 1, r#type: "pen".into() };
    db.run(|tx| rows.insert(tx, &one)).unwrap();
    assert_eq!(rows.get(&mut db.begin().unwrap(), &[1u64.into()]).unwrap(), Some(one));
    db.create_table_if_missing(Typed::schema("t").primary_key(&["id"])).unwrap();
}
