"""Writes the fonts of this folder anew, from Debian's fonts-noto-core, fonts-droid-fallback and python3-fonttools.

The fonts have no hints and no layout tables, because a PDF file uses neither. gzip gets no name and no time, so
the same packages give the same files.
"""

import gzip
import pathlib
import sys

from fontTools import subset, ttLib

NOTO = "/usr/share/fonts/truetype/noto/"
DROID = "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf"

LATIN = (  # also Greek and Cyrillic
    [(0x20, 0x7E), (0xA0, 0x24F), (0x259, 0x259), (0x2B0, 0x2FF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F)]
    + [(0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F), (0x20A0, 0x20CF), (0x2100, 0x214F)]
    + [(0x2190, 0x2199), (0x2212, 0x2212), (0x25A1, 0x25A1), (0x25CC, 0x25CC), (0xFFFD, 0xFFFD)]
)
ARABIC = [(0x600, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)]
CJK = [(0x1100, 0x11FF), (0x2E80, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF)]


def write(source, target, codes):
    options = subset.Options(hinting=False, name_IDs=["*"], notdef_outline=True, glyph_names=False)
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "DSIG", "gasp", "vhea", "vmtx"]
    font = ttLib.TTFont(source, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    plain = pathlib.Path(sys.argv[1]) / "plain.ttf"
    font.save(plain)
    target = pathlib.Path(__file__).parent / (target + ".ttf.gz")
    target.write_bytes(gzip.compress(plain.read_bytes(), 9, mtime=0))
    plain.unlink()
    print(target.name, target.stat().st_size, len(font.getGlyphOrder()))


def ranges(pairs):
    return {code for first, last in pairs for code in range(first, last + 1)}


for weight in ("Regular", "Bold"):
    write(f"{NOTO}NotoSans-{weight}.ttf", f"noto-sans-{weight.lower()}", ranges(LATIN))
    write(f"{NOTO}NotoSansArabic-{weight}.ttf", f"noto-sans-arabic-{weight.lower()}", ranges(ARABIC))
write(DROID, "droid-sans-fallback", ranges(CJK))
