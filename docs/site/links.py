#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links of the site that lead nowhere: to files or anchors that are not in it. usage: links.py SITE"""
import re
import sys
import urllib.parse
from pathlib import Path

THEIRS = re.compile("nested-classes|moduleprocedure-")  # anchors that Doxygen 1.9 and FORD 7 name and do not make

def wanted(page, text):
    """(file, anchor) of every link of the page that stays in the site."""
    for link in re.findall(r"""(?:href|src)=["']([^"']+)["']""", text):
        link = urllib.parse.urlsplit(link.replace("&amp;", "&"))
        if not (link.scheme or link.netloc):
            path = urllib.parse.unquote(link.path)
            yield (page.parent / path).resolve() if path else page, urllib.parse.unquote(link.fragment)


def main(site):
    pages = {page: page.read_text(errors="replace") for page in site.rglob("*.html")}
    anchors = {page: set(re.findall(r"""(?:id|name)=["']([^"']+)["']""", text)) for page, text in pages.items()}
    broken = []
    for page, text in sorted(pages.items()):
        for target, anchor in wanted(page, text):
            if not target.exists() or (anchor and target in anchors and anchor not in anchors[target]
                                           and not THEIRS.match(anchor)):
                broken.append(f"{page.relative_to(site)}: {target}{'#' + anchor if anchor else ''}")
    print("\n".join(sorted(set(broken))) or f"{len(pages)} pages, every link leads somewhere")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
