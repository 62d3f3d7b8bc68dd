"""Indexes and searches texts with tantivy for npm run bench:words: a JSON request a line, a JSON answer a line."""

import json
import re
import sys
import time

import tantivy

index = None
for line in sys.stdin:
    request = json.loads(line)
    if "texts" in request:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="position")
        builder.add_integer_field("place", stored=True)
        documents = [tantivy.Document(text=text, place=place) for place, text in enumerate(request["texts"])]
        start = time.process_time()
        index = tantivy.Index(builder.build())
        writer = index.writer(256_000_000, 1)
        for document in documents:
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        seconds = time.process_time() - start
        index.reload()
        searcher = index.searcher()
        print(json.dumps({"seconds": seconds, "found": []}), flush=True)
    else:
        # Operators of the query language would be errors, so only words go into a query.
        queries = [" ".join(re.findall(r"\w+", query)).lower() for query in request["queries"]]
        start = time.process_time()
        results = [searcher.search(index.parse_query(query, ["text"]), request["k"], count=False).hits for query in queries]
        seconds = time.process_time() - start
        found = [[searcher.doc(address)["place"][0] for _, address in hits] for hits in results]
        print(json.dumps({"seconds": seconds, "found": found}), flush=True)
