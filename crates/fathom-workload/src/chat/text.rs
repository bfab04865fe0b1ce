//! What people write: short messages in Korean and English, of everyday words put together at
//! random.
//!
//! Nothing here comes from a real conversation. What matters to a database is what the text does to
//! it: Korean takes three bytes a syllable in UTF-8, most messages are a few words long, some are a
//! page, and no two pages are alike.

use fathom_random::Random;

/// The language of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Korean.
    Korean,
    /// English.
    English,
}

const KOREAN: [&str; 64] = [
    "오늘",
    "내일",
    "어제",
    "지금",
    "이따가",
    "나중에",
    "아침에",
    "점심",
    "저녁",
    "주말에",
    "회사에서",
    "학교",
    "집에",
    "역 앞에서",
    "카페",
    "버스",
    "지하철",
    "택시",
    "비가",
    "눈이",
    "날씨가",
    "정말",
    "진짜",
    "너무",
    "조금",
    "많이",
    "같이",
    "혼자",
    "먼저",
    "다시",
    "그냥",
    "아마",
    "우리",
    "엄마가",
    "친구랑",
    "선생님이",
    "팀장님",
    "회의가",
    "시험",
    "숙제",
    "사진",
    "영화",
    "노래",
    "커피",
    "밥",
    "김치찌개",
    "치킨",
    "생일",
    "선물",
    "약속",
    "전화",
    "문자",
    "보내줘",
    "먹었어?",
    "갔다 왔어",
    "늦을 것 같아",
    "기다려",
    "괜찮아",
    "좋아요",
    "고마워",
    "미안해",
    "알겠습니다",
    "언제 와?",
    "어디야?",
];

const ENGLISH: [&str; 64] = [
    "today",
    "tomorrow",
    "yesterday",
    "now",
    "later",
    "this",
    "morning",
    "lunch",
    "dinner",
    "weekend",
    "at",
    "work",
    "school",
    "home",
    "station",
    "coffee",
    "bus",
    "train",
    "late",
    "rain",
    "snow",
    "weather",
    "really",
    "very",
    "little",
    "together",
    "alone",
    "first",
    "again",
    "just",
    "maybe",
    "we",
    "mom",
    "friends",
    "teacher",
    "boss",
    "meeting",
    "exam",
    "homework",
    "photo",
    "movie",
    "song",
    "pizza",
    "birthday",
    "present",
    "plan",
    "call",
    "text",
    "send",
    "me",
    "the",
    "did you eat?",
    "on my way",
    "running late",
    "wait",
    "fine",
    "sounds good",
    "thanks",
    "sorry",
    "got it",
    "when?",
    "where are you?",
    "and",
    "with",
];

const KOREAN_ENDS: [&str; 8] = ["ㅋㅋㅋ", "ㅎㅎ", "ㅠㅠ", "!", "~", "^^", "👍", "😂"];
const ENGLISH_ENDS: [&str; 8] = ["lol", "haha", ":(", "!", "...", ":)", "👍", "😂"];

/// Longest message, in words.
const WORDS_MAX: usize = 80;

/// A message of 1 to 80 words: exponentially distributed with a mean of about five, and one in
/// fifty ten times as long (a pasted notice, a story).
pub fn message(language: Language, random: &mut Random) -> String {
    let (words, ends) = match language {
        Language::Korean => (&KOREAN, &KOREAN_ENDS),
        Language::English => (&ENGLISH, &ENGLISH_ENDS),
    };
    let stretch = if random.below(50) == 0 { 40.0 } else { 4.0 };
    let count = (1 + (exponential(random) * stretch) as usize).min(WORDS_MAX);
    let mut text = String::with_capacity(count * 10);
    for position in 0..count {
        if position > 0 {
            text.push(' ');
        }
        text.push_str(random.pick::<&str>(words));
    }
    if random.below(3) == 0 {
        text.push(' ');
        text.push_str(random.pick::<&str>(ends));
    }
    text
}

/// An exponentially distributed number of mean 1.
pub fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_are_text_of_their_language(seed: u64) {
            let mut random = Random::new(seed);
            let korean = message(Language::Korean, &mut random);
            let english = message(Language::English, &mut random);
            prop_assert!(korean.chars().any(|c| ('가'..='힣').contains(&c)), "{}", korean);
            prop_assert!(!english.chars().any(|c| ('가'..='힣').contains(&c)), "{}", english);
            for text in [korean, english] {
                prop_assert!(!text.is_empty() && text.len() < 2_000 && !text.contains('\0'));
            }
        }
    }

    #[test]
    fn most_messages_are_short_and_some_are_long() {
        let mut random = Random::new(5);
        let mut words: Vec<usize> =
            (0..10_000).map(|_| message(Language::English, &mut random).split(' ').count()).collect();
        words.sort_unstable();
        assert!((2..=8).contains(&words[5_000]), "median {}", words[5_000]);
        assert!(words[9_990] > 30, "p99.9 {}", words[9_990]);
    }
}
