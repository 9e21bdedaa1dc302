from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reporting import escape
from tests.reporting.report_builders import HOSTILE


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\x00b\x07", "a␀b␇"),
        ("\x7f\x9b", "␡⟨U+009B⟩"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("\u2066x\u2069", "⟨U+2066⟩x⟨U+2069⟩"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("\ud800", "⟨U+D800⟩"),
        ("line\r\nline", "line\nline"),
        ("lone\rreturn", "lone␍return"),
        ("18 €, 日本, é", "18 €, 日本, é"),
    ],
)
def test_what_cannot_be_seen_is_made_visible(raw: str, shown: str) -> None:
    assert escape.visible(raw) == shown


def test_a_long_text_is_cut_and_the_cut_is_told() -> None:
    shown = escape.visible("x" * 1_000_000, 100)
    assert shown == "x" * 100 + "… (999,900 more characters)"


@given(st.text())
def test_no_text_reaches_a_terminal_with_a_control_character(text: str) -> None:
    shown = escape.terminal(text)
    assert all(ord(char) >= 32 and not 0x7F <= ord(char) < 0xA0 for char in shown)


@given(st.text())
def test_every_text_is_legal_xml_and_utf8(text: str) -> None:
    shown = escape.visible(text)
    element = Xml.Element("a")
    element.text = shown
    assert Xml.fromstring(Xml.tostring(element, encoding="utf-8")).text == (shown or None)


@given(st.text())
def test_html_has_no_live_markup(text: str) -> None:
    shown = str(escape.html(text))
    assert not set("<>\"'") & set(shown)


@given(st.text())
def test_a_markdown_cell_is_one_line_and_one_cell(text: str) -> None:
    shown = escape.markdown(text)
    assert shown
    assert not set("|\n\r\t<>") & set(shown)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("[x](javascript:alert(1))", r"\[x\](javascript:alert(1))"),
        ("![x](http://a.b)", r"!\[x\](http\://a.b)"),
        ("www.example.org", r"www\.example.org"),
        ("@someone", "@&#8203;someone"),
        ("see #12", "see #&#8203;12"),
        ("a|b", "a&#124;b"),
        ("back\\|slash", r"back\\&#124;slash"),
        ("`code`", r"\`code\`"),
        ("_em_ and snake_case", r"\_em\_ and snake_case"),
        ("<b>", "&lt;b&gt;"),
        ("# heading", r"\# heading"),
        ("1. item", r"1\. item"),
        ("0.42", "0.42"),
        ("", " "),
    ],
)
def test_markdown_of_a_model_is_text(raw: str, shown: str) -> None:
    assert escape.markdown(raw) == shown


def test_a_code_block_cannot_be_ended() -> None:
    assert "```" not in escape.markdown_code(HOSTILE)
    assert "\n" not in escape.markdown_code(HOSTILE)
