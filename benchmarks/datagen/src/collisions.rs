//! Tables of accidents in the shape of New York's public file of motor vehicle collisions: the same columns, empty
//! where that one is, in no order.

use std::io::{self, Write};

use crate::random::{Random, Weighted};

const HEADER: &str = "CRASH DATE,CRASH TIME,BOROUGH,ZIP CODE,LATITUDE,LONGITUDE,LOCATION,ON STREET NAME,\
CROSS STREET NAME,OFF STREET NAME,NUMBER OF PERSONS INJURED,NUMBER OF PERSONS KILLED,\
NUMBER OF PEDESTRIANS INJURED,NUMBER OF PEDESTRIANS KILLED,NUMBER OF CYCLIST INJURED,\
NUMBER OF CYCLIST KILLED,NUMBER OF MOTORIST INJURED,NUMBER OF MOTORIST KILLED,\
CONTRIBUTING FACTOR VEHICLE 1,CONTRIBUTING FACTOR VEHICLE 2,CONTRIBUTING FACTOR VEHICLE 3,\
CONTRIBUTING FACTOR VEHICLE 4,CONTRIBUTING FACTOR VEHICLE 5,COLLISION_ID,VEHICLE TYPE CODE 1,\
VEHICLE TYPE CODE 2,VEHICLE TYPE CODE 3,VEHICLE TYPE CODE 4,VEHICLE TYPE CODE 5";

/// Boroughs with their first ZIP code and their share in a thousand; none is the most frequent.
const BOROUGHS: [(&str, u64, u64); 6] = [
    ("", 0, 310),
    ("BROOKLYN", 11_200, 218),
    ("QUEENS", 11_350, 186),
    ("MANHATTAN", 10_000, 155),
    ("BRONX", 10_450, 102),
    ("STATEN ISLAND", 10_300, 29),
];

/// How many different factors there are.
const FACTORS: u64 = 60;

/// Parts that factors' names are made of.
const CAUSES: [&str; 10] = [
    "Driver",
    "Pedestrian",
    "Passenger",
    "Steering",
    "Pavement",
    "Traffic Control",
    "Following",
    "Vehicle",
    "Turning",
    "View",
];
const FAULTS: [&str; 6] = [
    "Inattention/Distraction",
    "Defective",
    "Improper",
    "Too Closely",
    "Obstructed, Limited",
    "Disregarded",
];

const STREETS: [&str; 12] = [
    "BROADWAY",
    "ATLANTIC AVENUE",
    "BELT PARKWAY",
    "WEST 42 STREET",
    "NORTHERN BOULEVARD",
    "3 AVENUE",
    "LONG ISLAND EXPRESSWAY",
    "GRAND CONCOURSE",
    "FLATBUSH AVENUE",
    "MAJOR DEEGAN EXPRESSWAY",
    "HYLAN BOULEVARD",
    "QUEENS BOULEVARD",
];

const VEHICLES: [&str; 8] = [
    "Sedan",
    "Station Wagon/Sport Utility Vehicle",
    "Taxi",
    "Pick-up Truck",
    "Bike",
    "Bus",
    "Box Truck",
    "Motorcycle",
];

/// The days that accidents happened on: ten years from the first of July 2012.
const FIRST_DAY: (u64, u64, u64) = (2012, 7, 1);
const DAYS: u64 = 3652;

/// The name of a factor; of the first two ranks, as in the public file.
fn factor(rank: usize) -> String {
    match rank {
        0 => "Unspecified".to_owned(),
        1 => "Driver Inattention/Distraction".to_owned(),
        _ => format!("{} {}", CAUSES[rank % CAUSES.len()], FAULTS[rank / CAUSES.len()]),
    }
}

/// Writes a field, within quotes where it needs them.
fn field(line: &mut String, text: &str) {
    if text.contains([',', '"']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
    line.push(',');
}

/// The days of the calendar, as the file writes them.
fn days() -> Vec<String> {
    let (mut year, mut month, mut day) = FIRST_DAY;
    let mut days = Vec::with_capacity(DAYS as usize);
    for _ in 0..DAYS {
        days.push(format!("{month:02}/{day:02}/{year}"));
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > length {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
    days
}

pub(crate) fn write(bytes: u64, random: &mut Random, out: &mut dyn Write) -> io::Result<()> {
    let boroughs = Weighted::new(&BOROUGHS.map(|(_, _, share)| share));
    let ranks = Weighted::zipf(FACTORS);
    let factors: Vec<String> = (0..FACTORS as usize).map(factor).collect();
    let days = days();
    writeln!(out, "{HEADER}")?;
    let mut written = HEADER.len() as u64 + 1;
    let mut line = String::new();
    let mut id = 4_000_000;
    while written < bytes {
        id += 1 + random.below(3);
        line.clear();
        accident(&mut line, random, id, &days, &boroughs, &factors, &ranks);
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    Ok(())
}

fn accident(
    line: &mut String,
    random: &mut Random,
    id: u64,
    days: &[String],
    boroughs: &Weighted,
    factors: &[String],
    ranks: &Weighted,
) {
    field(line, &days[random.below(DAYS) as usize]);
    field(line, &format!("{}:{:02}", random.below(24), random.below(60)));
    let (borough, zip, _) = BOROUGHS[boroughs.draw(random)];
    field(line, borough);
    if borough.is_empty() {
        line.push(',');
    } else {
        field(line, &(zip + random.below(100)).to_string());
    }
    if random.chance(900) {
        let (north, west) = (500_000 + random.below(400_000), 700_000 + random.below(550_000));
        let (north, west) = (format!("40.{north}"), format!("-{}.{:06}", 73, west % 1_000_000));
        field(line, &north);
        field(line, &west);
        field(line, &format!("({north}, {west})"));
    } else {
        line.push_str(",,,");
    }
    let street = |random: &mut Random| STREETS[random.below(STREETS.len() as u64) as usize];
    if random.chance(750) {
        field(line, street(random));
        match random.below(2000) {
            0 => field(line, "AVENUE \"C\""),
            1..10 => field(line, "BROADWAY, WEST"),
            _ => field(line, street(random)),
        }
        line.push(',');
    } else {
        line.push_str(",,");
        field(line, &format!("{:<10}{}", 1 + random.below(4000), street(random)));
    }
    people(line, random);
    let vehicles = match random.below(1000) {
        0..150 => 1,
        150..930 => 2,
        930..985 => 3,
        985..996 => 4,
        _ => 5,
    };
    for at in 0..5 {
        match at < vehicles && !random.chance(3) {
            true => field(line, &factors[ranks.draw(random)]),
            false => line.push(','),
        }
    }
    field(line, &id.to_string());
    for at in 0..5 {
        match at < vehicles {
            true => field(line, VEHICLES[random.below(VEHICLES.len() as u64) as usize]),
            false => line.push(','),
        }
    }
    line.pop();
    line.push('\n');
}

/// Injured and killed: all, on foot, on bicycles, in cars. Two accidents in a thousand are lethal, and once in
/// a great while nothing was counted.
fn people(line: &mut String, random: &mut Random) {
    let mut hurt = [0; 4];
    let mut killed = [0; 4];
    if random.chance(200) {
        let injured = 1 + random.below(3) / 2;
        hurt[0] = injured;
        hurt[1 + random.below(3) as usize] = injured;
    }
    if random.chance(2) {
        let dead = 1 + random.below(20) / 19;
        killed[0] = dead;
        killed[1 + random.below(3) as usize] = dead;
    }
    if random.below(50_000) == 0 {
        line.push_str(",,");
    } else {
        line.push_str(&format!("{},{},", hurt[0], killed[0]));
    }
    for kind in 1..4 {
        line.push_str(&format!("{},{},", hurt[kind], killed[kind]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a line, without quotes.
    fn fields(line: &str) -> Vec<String> {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for char in line.chars() {
            match char {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(char),
            }
        }
        fields
    }

    #[test]
    fn the_table_has_the_shape_that_it_claims() {
        let mut bytes = Vec::new();
        write(2_000_000, &mut Random::new(1), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let rows: Vec<_> = text.lines().skip(1).map(fields).collect();
        assert!(rows.iter().all(|row| row.len() == HEADER.split(',').count()));
        let share = |which: &dyn Fn(&[String]) -> bool| {
            rows.iter().filter(|row| which(row)).count() as f64 / rows.len() as f64
        };
        assert!((share(&|row| row[2].is_empty()) - 0.31).abs() < 0.02);
        assert!((share(&|row| row[2] == "STATEN ISLAND") - 0.029).abs() < 0.01);
        assert!((share(&|row| row[11].parse::<u32>().is_ok_and(|n| n > 0)) - 0.002).abs() < 0.001);
        assert!((share(&|row| row[6].contains(", ")) - 0.9).abs() < 0.02);
        assert!((180..=230).contains(&(text.len() / rows.len())), "{}", text.len() / rows.len());
    }

    #[test]
    fn the_calendar_is_the_calendar() {
        let days = days();
        assert_eq!(
            (&*days[0], &*days[243], &*days[DAYS as usize - 1]),
            ("07/01/2012", "03/01/2013", "06/30/2022")
        );
        assert!(
            days.contains(&"02/29/2016".to_owned()) && !days.contains(&"02/29/2015".to_owned())
        );
    }

    #[test]
    fn factors_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = (0..FACTORS as usize).map(factor).collect();
        assert_eq!(names.len() as u64, FACTORS);
    }
}
