//! Three questions to New York's public file of motor vehicle collisions, all of them answered in one pass.
//!
//! An accident without a date stops the job; one without a number of persons killed counts as not lethal, one
//! without a borough is in none, and one without factors has none.

use std::fmt;
use thalweg::data::{Covariant, Labelled, Record};
use thalweg::io::{Csv, ReadRow};
use thalweg::time::Timestamp;
use thalweg::{Chain, Data, Environment, Stream, Visit};

/// A week, from Monday to Sunday, by its number. It is shown by its Monday's date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Data)]
pub struct Week(i32);

impl Week {
    /// The week of a date as the file has it: `12/31/2020`.
    pub fn of(date: &str) -> Option<Self> {
        let number = |digits: &[u8]| {
            let digit = |digit: &u8| digit.is_ascii_digit().then(|| i32::from(digit - b'0'));
            digits.iter().try_fold(0, |number, byte| Some(10 * number + digit(byte)?))
        };
        let &[m0, m1, b'/', d0, d1, b'/', y0, y1, y2, y3] = date.as_bytes() else { return None };
        let (year, month) = (number(&[y0, y1, y2, y3])?, number(&[m0, m1])?);
        let day = number(&[d0, d1])?;
        let lasts = || days(year, month + 1, 1) - days(year, month, 1);
        let exists = (1..=12).contains(&month) && day > 0 && (day <= 28 || day <= lasts());
        exists.then(|| Self((days(year, month, day) - MONDAY).div_euclid(7)))
    }
}

/// The fifth of January 1970, in days.
const MONDAY: i32 = 4;

/// The days from the beginning of 1970. A year is taken to begin in March, so that its leap day is its last.
fn days(year: i32, month: i32, day: i32) -> i32 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let century = year.div_euclid(100);
    let before = 365 * year + year.div_euclid(4) - century + century.div_euclid(4);
    before + (153 * month + 2) / 5 + day - 719_469
}

impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let monday = Timestamp::from_secs(86_400 * i64::from(7 * self.0 + MONDAY)).to_string();
        f.write_str(monday.split('T').next().unwrap_or_default())
    }
}

/// A kind of record: accidents, borrowed from the file's blocks.
pub struct Accidents {
    _unsized: [()],
}

/// What the questions are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accident<'a> {
    /// When it was.
    pub week: Week,
    /// Whether anyone was killed.
    pub lethal: bool,
    /// Where it was; nothing where that is not known.
    pub borough: &'a str,
    /// What contributed to it, for up to five vehicles; nothing where there is none.
    pub factors: [&'a str; 5],
}

impl Record for Accidents {
    type Of<'a> = Accident<'a>;
}

impl Covariant for Accidents {
    fn shorten<'short, 'long: 'short>(accident: Accident<'long>) -> Accident<'short> {
        accident
    }
}

/// Reads accidents.
struct ReadAccident;

impl ReadRow<8> for ReadAccident {
    type Row = Accidents;

    fn columns(&self) -> [&str; 8] {
        [
            "CRASH DATE",
            "BOROUGH",
            "NUMBER OF PERSONS KILLED",
            "CONTRIBUTING FACTOR VEHICLE 1",
            "CONTRIBUTING FACTOR VEHICLE 2",
            "CONTRIBUTING FACTOR VEHICLE 3",
            "CONTRIBUTING FACTOR VEHICLE 4",
            "CONTRIBUTING FACTOR VEHICLE 5",
        ]
    }

    #[inline]
    fn read<'a>(
        &self,
        [date, borough, killed, factors @ ..]: [&'a str; 8],
    ) -> Result<Accident<'a>, String> {
        let week = Week::of(date)
            .ok_or_else(|| format!("column `CRASH DATE`: `{date}` is no date like 12/31/2020"))?;
        let lethal = match killed {
            "0" | "" => false,
            _ => {
                killed.parse::<u32>().map_err(|error| {
                    format!("column `NUMBER OF PERSONS KILLED`: `{killed}`: {error}")
                })? > 0
            }
        };
        Ok(Accident { week, lethal, borough, factors })
    }
}

/// The accidents of files.
pub fn accidents(env: &Environment, files: Csv) -> Stream<impl Chain<Item = Accidents, Time = ()>> {
    env.csv_rows(files, ReadAccident)
}

/// The weeks of lethal accidents.
struct LethalWeeks;

impl Visit<Accidents> for LethalWeeks {
    type Out = Week;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, accident: Accident<'_>, (): &mut (), emit: &mut impl FnMut(Week)) {
        if accident.lethal {
            emit(accident.week);
        }
    }
}

/// Boroughs, each with a week and whether an accident was lethal.
struct Boroughs;

impl Visit<Accidents> for Boroughs {
    type Out = Labelled<(Week, bool)>;
    type Scratch = ();

    #[inline(always)]
    fn visit(
        &self,
        Accident { week, lethal, borough, .. }: Accident<'_>,
        (): &mut (),
        emit: &mut impl FnMut((&str, (Week, bool))),
    ) {
        if !borough.is_empty() {
            emit((borough, (week, lethal)));
        }
    }
}

/// The factors of an accident, each once, and whether it was lethal.
struct Factors;

impl Visit<Accidents> for Factors {
    type Out = Labelled<bool>;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, accident: Accident<'_>, (): &mut (), emit: &mut impl FnMut((&str, bool))) {
        for (at, factor) in accident.factors.into_iter().enumerate() {
            if !factor.is_empty() && !accident.factors[..at].contains(&factor) {
                emit((factor, accident.lethal));
            }
        }
    }
}

/// How many accidents, and how many of them lethal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Data)]
pub struct Tally {
    /// All.
    pub accidents: u64,
    /// Of them, the lethal ones.
    pub lethal: u64,
}

impl Tally {
    fn add(&mut self, lethal: bool) {
        self.accidents += 1;
        self.lethal += u64::from(lethal);
    }

    fn merge(&mut self, other: Self) {
        self.accidents += other.accidents;
        self.lethal += other.lethal;
    }
}

/// The tallies of one week after the other.
#[derive(Clone, Debug, Default, Data)]
struct Weeks {
    first: i32,
    tallies: Vec<Tally>,
}

impl Weeks {
    fn of(&mut self, week: Week) -> &mut Tally {
        if self.tallies.is_empty() {
            self.first = week.0;
        }
        if week.0 < self.first {
            let earlier = (self.first - week.0) as usize;
            self.tallies.splice(..0, std::iter::repeat_n(Tally::default(), earlier));
            self.first = week.0;
        }
        let at = (week.0 - self.first) as usize;
        if at >= self.tallies.len() {
            self.tallies.resize(at + 1, Tally::default());
        }
        &mut self.tallies[at]
    }

    /// The weeks that have accidents.
    fn each(self) -> impl Iterator<Item = (Week, Tally)> {
        let weeks = (self.first..).map(Week).zip(self.tallies);
        weeks.filter(|(_, tally)| tally.accidents > 0)
    }
}

/// What is known of a borough in a week.
#[derive(Clone, Debug, PartialEq, PartialOrd, Data)]
pub struct BoroughWeek {
    /// The borough.
    pub borough: String,
    /// The week.
    pub week: Week,
    /// The accidents in that week.
    pub accidents: u64,
    /// The mean of the borough's lethal accidents over all weeks in which it had any accident.
    pub mean_lethal: f64,
}

/// All weeks of one borough.
fn rows(borough: &str, weeks: Weeks) -> Vec<BoroughWeek> {
    let all: Vec<_> = weeks.each().collect();
    let lethal: u64 = all.iter().map(|(_, tally)| tally.lethal).sum();
    let mean_lethal = lethal as f64 / all.len() as f64;
    let row = |(week, tally): (Week, Tally)| BoroughWeek {
        borough: borough.to_owned(),
        week,
        accidents: tally.accidents,
        mean_lethal,
    };
    all.into_iter().map(row).collect()
}

/// The three questions: lethal accidents by week, for weeks that have some; accidents by contributing factor, those
/// that were lethal beside them; and accidents by borough and week, with the borough's mean of lethal ones a week.
///
/// The factors are counted where accidents are read; what the others need goes ways of its own.
#[allow(
    clippy::type_complexity,
    reason = "three streams have three types, which an alias would hide"
)]
pub fn three_questions<C: Chain<Item = Accidents>>(
    accidents: Stream<C>,
) -> (
    Stream<impl Chain<Item = (Week, u64), Time = C::Time>>,
    Stream<impl Chain<Item = (String, Tally), Time = C::Time>>,
    Stream<impl Chain<Item = BoroughWeek, Time = C::Time>>,
) {
    let (accidents, weeks) = accidents.side_output_each(LethalWeeks);
    let (accidents, boroughs) = accidents.side_output_each(Boroughs);
    let weeks = weeks.group_by_ref(|week| week).count().unkey();
    let factors = accidents
        .flat_each(Factors)
        .group_by_ref(|row| row.0)
        .fold_assoc(Tally::default(), |tally, row| tally.add(row.1), Tally::merge)
        .unkey();
    let boroughs = boroughs
        .group_by_ref(|row| row.0)
        .fold_assoc(
            Weeks::default(),
            |weeks, (_, (week, lethal))| weeks.of(week).add(lethal),
            |weeks, others| others.each().for_each(|(week, tally)| weeks.of(week).merge(tally)),
        )
        .unkey()
        .flat_map(|(borough, weeks)| rows(&borough, weeks));
    (weeks, factors, boroughs)
}
