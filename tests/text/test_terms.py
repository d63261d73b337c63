"""The language of a text, and that each is searched by its own rules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pixi.knowledge.index import Index
from pixi.text.terms import CODES, language_of, normalise, pieces
from tests.knowledge.index.building import ids, index_of


def spoken(text: str) -> str | None:
    return language_of(piece for _, piece, _ in pieces(normalise(text)))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The kettle is on the table and the water in it boils for tea.", "english"),
        ("Der Kessel steht auf dem Tisch und das Wasser ist nicht heiß.", "german"),
        ("La bouilloire est sur la table et les tasses sont dans le placard.", "french"),
        ("La tetera está en la mesa y el agua no es para los gatos.", "spanish"),
        ("A chaleira está na mesa e não é para o chá dos gatos.", "portuguese"),
        ("Il bollitore è sul tavolo e non si sa che cosa sono gli altri.", "italian"),
        ("Ceainicul este pe masă și apa din el nu a fost pentru ceai.", "romanian"),
        ("Чайник стоит на столе, и вода в нём не для кошек, но это не всё.", "russian"),
        ("Çaydanlık masada ve su çok sıcak, bu bir çay için daha iyi.", "turkish"),
        ("Ο βραστήρας είναι στο τραπέζι και το νερό δεν είναι για την γάτα.", "greek"),
        ("केतली मेज पर है और पानी चाय के लिए गर्म किया गया था।", "hindi"),
        ("الإبريق على الطاولة و الماء في الكوب من أجل الشاي الذي هو هنا", "arabic"),
        ("کتری روی میز است و آب آن را برای چای گرم کردند که این خوب بود", "persian"),
        ("Waterkoker staat op de tafel en het water is niet voor een kat.", "dutch"),
        ("Ấm nước ở trên bàn và nước không phải là của con mèo được cho.", ""),
        ("ABC 123", None),
        ("水壶在桌子上", None),
    ],
)
def test_language(text: str, language: str | None) -> None:
    assert spoken(text) == language


def test_every_language_has_a_stemmer() -> None:
    import Stemmer

    assert CODES.keys() <= set(Stemmer.algorithms())


_ABOUT_CATS = {
    "en": "The cats were sleeping on the warm stones of the garden wall.",
    "de": "Die Katzen schliefen auf den warmen Steinen, und der Garten ist nicht groß.",
    "es": "Los gatos dormían en las piedras, y el jardín de la casa no es grande.",
    "ro": "Pisicile dormeau pe pietrele calde, iar grădina este în spatele casei și nu e mare.",
    "ru": "Кошки спали на тёплых камнях, и это было в саду, но не у дома.",
    "el": "Οι γάτες κοιμόταν στις ζεστές πέτρες και ο κήπος δεν είναι μεγάλος για την αυλή.",
    "tr": "Kediler sıcak taşların üzerinde uyuyordu ve bahçe çok büyük değil, bu bir sorun.",
    "hi": "बिल्लियाँ गर्म पत्थरों पर सो रही थीं और बगीचे में कोई नहीं था।",
    "ar": "كانت القطط نائمة على الحجارة الدافئة في الحديقة التي هي من أجمل ما كان",
    "fa": "گربه‌ها روی سنگ‌های گرم باغ خوابیده بودند و این در خانه است که بود",
    "vi": "Những con mèo ngủ trên đá ấm và khu vườn không phải là của nhà được cho.",
    "th": "แมวนอนอยู่บนหินอุ่นในสวนหลังบ้าน",
    "lo": "ແມວນອນຢູ່ເທິງກ້ອນຫີນອຸ່ນໃນສວນ",
    "km": "ឆ្មាដេកលើថ្មក្តៅក្នុងសួនច្បារ",
    "my": "ကြောင်များသည် ပူနွေးသော ကျောက်တုံးများပေါ်တွင် အိပ်နေသည်",
    "zh": "猫睡在花园温暖的石头上。",
    "ja": "猫は庭の暖かい石の上で眠っていた。",
    "ko": "고양이들이 정원의 따뜻한 돌 위에서 잠을 잤다.",
}


@pytest.fixture(scope="module")
def about_cats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    index = index_of(tmp_path_factory.mktemp("cats") / "index", dict(enumerate(_ABOUT_CATS.values())))
    yield index
    index.close()


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("cat sleeps", "en"),
        ("Katze im Gärten", "de"),
        ("gato piedra", "es"),
        ("pisica piatra calda", "ro"),
        ("кошка камень", "ru"),
        ("ΓΑΤΑ ΠΕΤΡΑ", "el"),
        ("kedi taş", "tr"),
        ("बिल्ली पत्थर", "hi"),
        ("القطة الحديقة", "ar"),
        ("گربه سنگ", "fa"),
        ("گربه های خوابیده", "fa"),
        ("con mèo", "vi"),
        ("แมวนอน", "th"),
        ("ແມວ", "lo"),
        ("ឆ្មា", "km"),
        ("ကြောင်", "my"),
        ("花園石頭", "zh"),
        ("庭の石", "ja"),
        ("고양이", "ko"),
        ("정원에서", "ko"),
    ],
)
def test_found_in_its_language(about_cats: Index, query: str, language: str) -> None:
    assert list(_ABOUT_CATS)[ids(about_cats.search(query, 5))[0]] == language


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (
            ("The ship sailed for the islands and it was late.", "The shop is in the town and it was shut."),
            "sailing islands",
        ),
        (
            ("Die Häuser sind alt und der Markt ist neu.", "Die Hüte sind rot und der Mantel ist blau."),
            "altes Haus",
        ),
        (
            (
                "Вчера в городе шли дожди, и это было не в лесу.",
                "Вчера в деревне не было света, и это на день.",
            ),
            "дождь",
        ),
        (
            (
                "Los niños jugaban en la calle y no en el parque.",
                "Los perros comen de la mesa y no en el suelo.",
            ),
            "jugar niño",
        ),
    ],
)
def test_other_forms_of_a_word_are_found(tmp_path: Path, texts: tuple[str, str], query: str) -> None:
    index = index_of(tmp_path / "index", dict(enumerate(texts)))
    assert ids(index.search(query, 1)) == [0]
    index.close()


def test_a_few_foreign_words_do_not_make_a_language() -> None:
    assert spoken("ABC v s a DEF " + "".join(f"名 Name{number} " for number in range(200))) is None
