"""What mkdocs does to each page: links to files outside of docs/ lead to the repository."""

import os
import re

LINK = re.compile(r"\]\((?!\w+:|#|/)([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    docs = config["docs_dir"]
    here = os.path.dirname(os.path.join(docs, page.file.src_uri))

    def follow(link):
        target = os.path.normpath(os.path.join(here, link[1]))
        if target.startswith(docs + os.sep) and not os.path.isdir(target):
            return link[0]
        kind = "tree" if os.path.isdir(target) else "blob"
        name = os.path.relpath(target, os.path.dirname(docs))
        return f"]({config['extra']['repository']}/{kind}/main/{name}{link[2] or ''})"

    return LINK.sub(follow, markdown)
