from __future__ import annotations

from PIL import Image

from cli.demo.sheet import CELL_WIDTH, IMAGE_SIDE, Cell, Row, cell_corner, draw_sheet, sheet_size, wrapped

RED, BLUE = (255, 0, 0), (0, 0, 255)


def plain(colour: tuple[int, int, int]) -> Cell:
    return Cell(Image.new("RGB", (64, 32), colour), ("night", "a prompt that is rather long for its cell", "seed 7"))


def test_every_image_stands_in_its_own_cell() -> None:
    rows = [Row("night", (plain(RED),)), Row("none", (plain(BLUE), plain(RED), Cell(None, ("cancelled",))))]
    sheet = draw_sheet("A demo", rows)
    assert sheet.size == sheet_size([1, 3])
    for row, column, colour in [(0, 0, RED), (1, 0, BLUE), (1, 1, RED)]:
        left, top = cell_corner(row, column)
        assert sheet.crop((left, top, left + IMAGE_SIDE, top + IMAGE_SIDE)).getcolors() == [(IMAGE_SIDE**2, colour)]


def test_captions_are_below_their_images_and_within_the_sheet() -> None:
    rows = [Row("night", (plain(RED),))]
    with_words = draw_sheet("", rows)
    without = draw_sheet("", [Row("night", (Cell(plain(RED).image, ()),))])
    left, top = cell_corner(0, 0)
    differs = [
        (x, y)
        for x in range(with_words.width)
        for y in range(with_words.height)
        if with_words.getpixel((x, y)) != without.getpixel((x, y))
    ]
    assert differs
    assert all(left <= x < left + CELL_WIDTH for x, _ in differs)
    assert all(y >= top + IMAGE_SIDE for _, y in differs)


def test_cells_do_not_overlap_and_fit() -> None:
    width, height = sheet_size([2, 5])
    right, bottom = cell_corner(1, 4)
    assert cell_corner(0, 1)[0] - cell_corner(0, 0)[0] == CELL_WIDTH > IMAGE_SIDE
    assert right + CELL_WIDTH <= width
    assert bottom + IMAGE_SIDE < height


def test_a_sheet_without_rows_is_still_one() -> None:
    assert draw_sheet("nothing", []).size == sheet_size([])


def test_words_are_kept_in_order_on_short_lines() -> None:
    lines = wrapped("one two three fourteen five", 9, lambda text: float(len(text)))
    assert lines == ["one two", "three", "fourteen", "five"]
    assert wrapped("", 9, len) == []
    assert wrapped("unbreakable", 3, len) == ["unbreakable"]
