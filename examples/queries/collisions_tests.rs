//! The questions about collisions, against answers found one row after the other.

use std::collections::{BTreeMap, BTreeSet};
use thalweg::check::every;
use thalweg::io::Csv;
use thalweg_examples::queries::collisions::{BoroughWeek, Week, accidents, three_questions};

#[test]
fn weeks_begin_on_mondays() {
    for (date, monday) in [
        ("07/01/2012", "2012-06-25"),
        ("07/02/2012", "2012-07-02"),
        ("02/29/2016", "2016-02-29"),
        ("03/06/2016", "2016-02-29"),
        ("01/01/2023", "2022-12-26"),
        ("12/31/2000", "2000-12-25"),
        ("01/01/0001", "0001-01-01"),
        ("12/31/9999", "9999-12-27"),
    ] {
        assert_eq!(Week::of(date).map(|week| week.to_string()).as_deref(), Some(monday), "{date}");
    }
    for wrong in [
        "",
        "2012-07-01",
        "7/1/2012",
        "13/01/2012",
        "02/29/2015",
        "00/10/2012",
        "01/00/2012",
        "01/32/2012",
        "01/01/12",
        "01/01/2012 ",
        "+1/01/2012",
    ] {
        assert_eq!(Week::of(wrong), None, "{wrong}");
    }
}

/// A file of so many rows, in which there is all that is missing in the real one, and its answers.
struct Case {
    text: String,
    weeks: BTreeMap<String, u64>,
    factors: BTreeMap<String, (u64, u64)>,
    boroughs: BTreeMap<(String, String), (u64, f64)>,
}

fn case(rows: u32) -> Case {
    let header = "BOROUGH,CRASH DATE,note,NUMBER OF PERSONS KILLED,CONTRIBUTING FACTOR VEHICLE 5,\
        CONTRIBUTING FACTOR VEHICLE 4,CONTRIBUTING FACTOR VEHICLE 3,CONTRIBUTING FACTOR VEHICLE 2,\
        CONTRIBUTING FACTOR VEHICLE 1\n";
    let mut case = Case {
        text: header.to_owned(),
        weeks: BTreeMap::new(),
        factors: BTreeMap::new(),
        boroughs: BTreeMap::new(),
    };
    // Four Mondays and Sundays.
    let days = [
        ("01/05/2015", "2015-01-05"),
        ("01/11/2015", "2015-01-05"),
        ("01/12/2015", "2015-01-12"),
        ("12/27/2015", "2015-12-21"),
    ];
    let names = ["", "Glare", "a \"quoted\", odd one", "Unspecified"];
    let mut tallies: BTreeMap<&str, BTreeMap<&str, (u64, u64)>> = BTreeMap::new();
    for n in 0..rows {
        let n = n.wrapping_mul(2_654_435_761) >> 7;
        let borough = ["", "BRONX", "STATEN ISLAND"][n as usize % 3];
        let (date, week) = days[(n / 3) as usize % 4];
        let (killed, lethal) = [("0", 0), ("", 0), ("1", 1), ("02", 1)][(n / 12) as usize % 4];
        let factors: Vec<&str> =
            (0..5).map(|at| names[(n >> (10 + 2 * at)) as usize % 4]).collect();
        let quoted: Vec<String> =
            factors.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
        case.text += &format!("{borough},{date},\"x, y\",{killed},{}\n", quoted.join(","));
        if lethal > 0 {
            *case.weeks.entry(week.to_owned()).or_default() += 1;
        }
        for factor in factors.into_iter().filter(|name| !name.is_empty()).collect::<BTreeSet<_>>() {
            let tally = case.factors.entry(factor.to_owned()).or_default();
            *tally = (tally.0 + 1, tally.1 + lethal);
        }
        if !borough.is_empty() {
            let tally = tallies.entry(borough).or_default().entry(week).or_default();
            *tally = (tally.0 + 1, tally.1 + lethal);
        }
    }
    for (borough, weeks) in tallies {
        let mean = weeks.values().map(|tally| tally.1).sum::<u64>() as f64 / weeks.len() as f64;
        for (week, (accidents, _)) in weeks {
            case.boroughs.insert((borough.to_owned(), week.to_owned()), (accidents, mean));
        }
    }
    case
}

#[test]
fn three_answers_of_one_pass() {
    for rows in [0, 1, 3000] {
        let case = case(rows);
        let file = tempfile::NamedTempFile::with_suffix(".csv").unwrap();
        std::fs::write(&file, &case.text).unwrap();
        every(|env| {
            let (weeks, factors, boroughs) = three_questions(accidents(env, Csv::new(file.path())));
            let (weeks, factors) = (weeks.collect::<Vec<_>>(), factors.collect::<Vec<_>>());
            let boroughs = boroughs.collect::<Vec<_>>();
            env.run()?;
            let weeks = weeks.take()?.into_iter().map(|(week, lethal)| (week.to_string(), lethal));
            assert_eq!(weeks.collect::<BTreeMap<_, _>>(), case.weeks);
            let factors = factors.take()?.into_iter();
            let factors = factors.map(|(name, tally)| (name, (tally.accidents, tally.lethal)));
            assert_eq!(factors.collect::<BTreeMap<_, _>>(), case.factors);
            let boroughs = boroughs.take()?.into_iter().map(|row| {
                let BoroughWeek { borough, week, accidents, mean_lethal } = row;
                ((borough, week.to_string()), (accidents, mean_lethal))
            });
            assert_eq!(boroughs.collect::<BTreeMap<_, _>>(), case.boroughs);
            Ok(())
        });
    }
}
