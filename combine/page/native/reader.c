/* reader: one pass over the tree of a page, as combine/page/html.py makes it, in C.
 *
 * Takes   the UTF-8 source of a page, and the functions of the lexbor library that selectolax has loaded.
 * Gives   one run of fields with a NUL after each (no parsed text has one), in the order that stands above `read_page`,
 *         and the text of the page with what it is measured by.
 * Fails   with 0 where there is no memory.
 * Keeps   its buffers from page to page, but for those that a large page made larger than KEPT_ROOM: one thread only.
 * Limits  the texts of a link and of a heading are cut at MOST_TEXT bytes: many may enclose one long text.
 *
 * html.py is the reference: the tests hold the two together over all vectors. No header of Python or lexbor is
 * needed: lexbor's structures are only passed through, by the functions that it exports for such callers. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef SOURCE_DIGEST
#error "build.py compiles this: it says of what source the library was made, and no other is loaded"
#endif
const char source_digest[] = SOURCE_DIGEST;

#define MOST_TEXT 65536
#define KEPT_ROOM (1 << 20)
#define KNOWN_TAGS 256
#define TEXT_NODE 3
#define ELEMENT_NODE 1

typedef void Node;
typedef void Attribute;

/* In the order of FUNCTIONS in __init__.py. */
struct lexbor {
    Node *(*document_create)(void);
    Node *(*document_destroy)(Node *);
    unsigned (*document_parse)(Node *, const unsigned char *, size_t);
    void (*document_options)(Node *, unsigned);
    Node *(*first_child)(Node *);
    Node *(*next)(Node *);
    Node *(*parent)(Node *);
    size_t (*tag_id)(Node *);
    unsigned (*type)(Node *);
    unsigned char *(*text_content)(Node *, size_t *);
    Attribute *(*first_attribute)(Node *);
    Attribute *(*next_attribute)(Attribute *);
    const unsigned char *(*attribute_name)(Attribute *, size_t *);
    const unsigned char *(*attribute_value)(Attribute *, size_t *);
};

enum role { NONE, TEXT, BLOCK, CELL, HEADING, ANCHOR, REFERRING, BASE, META, TITLE };

/* What a tag asks for; filled by __init__.py from the tables of html.py. */
struct tag {
    unsigned char role, breaking, hiding, level;
    const char *name;
    const char *addresses; /* names of attributes, a blank after each */
};

struct buffer {
    unsigned char *data;
    size_t length, room;
    int broken;
};

struct page {
    const struct lexbor *lexbor;
    const struct tag *tags;
    struct buffer pieces, text, bare, metas, equivalents, headings, references, piece, line;
    struct buffer title, base, out;
    int has_title, has_base, has_place;
    size_t counts[4]; /* metas, equivalents, headings, sets of references */
    size_t words, depth_room;
    Node **parents;
};

static void add(struct buffer *buffer, const void *data, size_t length)
{
    if (buffer->length + length + 1 > buffer->room) {
        size_t room = (buffer->length + length + 1) * 2;
        unsigned char *grown = buffer->broken ? NULL : realloc(buffer->data, room);
        if (grown == NULL) {
            buffer->broken = 1;
            return;
        }
        buffer->data = grown;
        buffer->room = room;
    }
    if (length)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

static void end_field(struct buffer *buffer)
{
    add(buffer, "", 1);
}

static int make_room(struct buffer *buffer, size_t length)
{
    size_t before = buffer->length;
    if (buffer->room - before > length)
        return 1;
    buffer->length = before + length;
    add(buffer, "", 0);
    buffer->length = before;
    return !buffer->broken;
}

/* Bytes that begin or are white space, in part only, and NUL, which is a break. */
static const unsigned char special[256] = {
    [0] = 1, [9] = 1, [10] = 1, [11] = 1, [12] = 1, [13] = 1, [0x1c] = 1, [0x1d] = 1, [0x1e] = 1, [0x1f] = 1,
    [' '] = 1, [0xc2] = 1, [0xe1] = 1, [0xe2] = 1, [0xe3] = 1,
};

/* The length of the white space that begins here, as str.split() knows it; 0 for anything else. */
static size_t blank_at(const unsigned char *at, const unsigned char *end)
{
    if (!special[*at])
        return 0;
    if (*at <= ' ')
        return *at != 0;
    if (*at == 0xc2)
        return end - at > 1 && (at[1] == 0x85 || at[1] == 0xa0) ? 2 : 0;
    if (end - at < 3)
        return 0;
    if (*at == 0xe1)
        return at[1] == 0x9a && at[2] == 0x80 ? 3 : 0; /* U+1680 */
    if (*at == 0xe3)
        return at[1] == 0x80 && at[2] == 0x80 ? 3 : 0; /* U+3000 */
    if (at[1] == 0x80) /* U+2000 to 200A, 2028, 2029, 202F */
        return at[2] <= 0x8a || at[2] == 0xa8 || at[2] == 0xa9 || at[2] == 0xaf ? 3 : 0;
    return at[1] == 0x81 && at[2] == 0x9f ? 3 : 0; /* U+205F */
}

/* Those of the blanks above that html.py makes plain ones in running text. */
static size_t usual_blank_at(const unsigned char *at, const unsigned char *end)
{
    size_t length = blank_at(at, end);
    if (length < 2)
        return length && (*at == 11 || (*at >= 0x1c && *at <= 0x1f)) ? 0 : length;
    if (length == 2)
        return at[1] == 0xa0 ? 2 : 0;
    if (*at == 0xe3)
        return 3;
    return *at == 0xe2 && at[1] == 0x80 && (at[2] == 0x82 || at[2] == 0x83 || at[2] == 0x89 || at[2] == 0xaf) ? 3 : 0;
}

/* As " ".join(text.split()); breaks are blanks, too. */
static void add_words(struct buffer *buffer, const unsigned char *at, size_t length)
{
    const unsigned char *end = at + length;
    if (!length || !make_room(buffer, length + 1))
        return;
    unsigned char *to = buffer->data + buffer->length, *start = to;
    while (at < end) {
        size_t blank;
        while (at < end && (blank = *at ? blank_at(at, end) : 1))
            at += blank;
        if (at < end && to > start)
            *to++ = ' ';
        while (at < end && (!special[*at] || (*at && !blank_at(at, end))))
            *to++ = *at++;
    }
    buffer->length += to - start;
}

/* What the text of a page is measured by: its bytes without white space (space, and 9 to 13), and its word ends. */
static unsigned char *measure(const unsigned char *at, const unsigned char *end, unsigned char *bare, size_t *ends)
{
    for (; at < end; at++) {
        *ends += *at == ' ' || *at == '\n';
        if (*at != ' ' && (*at < 9 || *at > 13))
            *bare++ = *at;
    }
    return bare;
}

#define BLOCK_BYTES 64
#define CHUNK_BYTES 16

/* A bit for each byte of a block that is special. */
static uint64_t special_in(const unsigned char *at)
{
    uint64_t found = 0;
    for (size_t i = 0; i < BLOCK_BYTES; i += 8) {
        uint64_t eight = 0;
        for (size_t k = 0; k < 8; k++)
            eight |= (uint64_t)special[at[i + k]] << k;
        found |= eight << i;
    }
    return found;
}

/* Words are short, so chunks are copied whole; what is too much is overwritten by what comes next. */
static inline void copy_run(unsigned char *to, const unsigned char *from, size_t length)
{
    memcpy(to, from, CHUNK_BYTES);
    for (size_t done = CHUNK_BYTES; done < length; done += CHUNK_BYTES)
        memcpy(to + done, from + done, CHUNK_BYTES);
}

/* Add a line that has `length` bytes, and where it has doubled blanks without them; gives the end of its bare text. */
static unsigned char *add_line(struct page *page, struct buffer *to, size_t length, int is_doubled,
                               unsigned char *bare_start, unsigned char *bare, size_t blanks)
{
    const unsigned char *line = page->line.data;
    size_t before = to->length;
    if (before)
        add(to, "\n", 1);
    size_t start = to->length;
    if (is_doubled) {
        add_words(to, line, length);
        blanks = 0;
        bare = measure(to->data + start, to->data + to->length, bare_start, &blanks);
    } else
        add(to, line, length);
    if (to->length == start)
        to->length = before; /* only rare blanks */
    else
        page->words += blanks + 1;
    return bare;
}

/* As html.py's _paragraphs: a line for each run of text between breaks. */
static void add_paragraphs(struct buffer *to, struct page *page)
{
    size_t length = page->pieces.length, room = length + CHUNK_BYTES;
    if (!length || !make_room(&page->pieces, BLOCK_BYTES) || !make_room(&page->line, room) ||
        !make_room(to, length + 1) || !make_room(&page->bare, room))
        return;
    page->pieces.data[length] = 0; /* the last line ends, too */
    const unsigned char *at = page->pieces.data, *end = at + length + 1;
    unsigned char *const start = page->line.data;
    unsigned char *out = start, *after_blank = NULL, *doubled = NULL, *bare = page->bare.data, *bare_start = bare;
    size_t blanks = 0;
    while (at < end) {
        size_t count = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
        const unsigned char *run = at, *stop = at + count;
        for (uint64_t marks = special_in(at) & (UINT64_MAX >> (BLOCK_BYTES - count)); marks; marks &= marks - 1) {
            const unsigned char *mark = at + __builtin_ctzll(marks);
            size_t blank = *mark == ' ' || !*mark ? 1 : usual_blank_at(mark, end);
            if (!blank && *mark != '\v')
                continue; /* a character as any other */
            length = mark - run;
            copy_run(out, run, length);
            copy_run(bare, run, length);
            out += length, bare += length;
            run = mark + (blank ? blank : 1);
            if (!*mark) {
                while (out > start && out[-1] == ' ')
                    out--, blanks--;
                if (out > start)
                    bare = add_line(page, to, out - start, doubled != NULL && doubled < out, bare_start, bare, blanks);
                out = start, bare_start = bare, after_blank = doubled = NULL, blanks = 0;
            } else if (!blank) {
                *out++ = '\v'; /* kept, but nothing that the digest is made of */
            } else if (out > start) { /* none at the start */
                if (out == after_blank && doubled == NULL)
                    doubled = out;
                *out++ = ' ';
                after_blank = out;
                blanks++;
            }
        }
        if (run < stop) {
            copy_run(out, run, stop - run);
            copy_run(bare, run, stop - run);
            out += stop - run, bare += stop - run;
        }
        at = run < stop ? stop : run;
    }
    page->bare.length = bare - page->bare.data;
}

static int is_named(const unsigned char *name, size_t length, const char *wanted, size_t wanted_length)
{
    return length == wanted_length && memcmp(name, wanted, length) == 0;
}

/* The value of an attribute; "" where it has none, NULL where there is no such attribute. */
static const unsigned char *attribute(const struct lexbor *lexbor, Node *node, const char *name, size_t name_length,
                                      size_t *length)
{
    for (Attribute *at = lexbor->first_attribute(node); at != NULL; at = lexbor->next_attribute(at)) {
        size_t found_length = 0;
        const unsigned char *found = lexbor->attribute_name(at, &found_length);
        if (found != NULL && is_named(found, found_length, name, name_length)) {
            const unsigned char *value = lexbor->attribute_value(at, length);
            if (value != NULL)
                return value;
            *length = 0;
            return (const unsigned char *)"";
        }
    }
    *length = 0;
    return NULL;
}

#define ATTRIBUTE(node, name, length) attribute(page->lexbor, node, name, sizeof(name) - 1, length)

static const struct tag *tag_of(const struct page *page, Node *node)
{
    static const struct tag unknown = {NONE, 0, 0, 0, "", ""};
    size_t id = page->lexbor->tag_id(node);
    return id < KNOWN_TAGS ? &page->tags[id] : &unknown;
}

static int is_tag(const struct page *page, Node *node, const char *name)
{
    const struct tag *tag = tag_of(page, node);
    return tag->name != NULL && strcmp(tag->name, name) == 0;
}

static int open_parent(struct page *page, Node *node, size_t depth)
{
    if (depth >= page->depth_room) {
        size_t room = page->depth_room * 2 + 1024;
        Node **grown = realloc(page->parents, room * sizeof *grown);
        if (grown == NULL)
            return 0;
        page->parents = grown;
        page->depth_room = room;
    }
    page->parents[depth] = node;
    return 1;
}

static void gather(struct page *page, Node *node, const struct tag *tag, size_t ground);

static void add_break(struct buffer *pieces, int gathers)
{
    if (gathers || pieces->length) /* before the text of one element it would only count for MOST_TEXT */
        add(pieces, "", 1);
}

/* The pass: pieces of visible text, with a break around each block. Fields are gathered in the outer pass only; an
 * inner one, for the text of one element, starts above the parents of the outer. */
static int pass(struct page *page, Node *root, struct buffer *pieces, int gathers, size_t ground)
{
    const struct lexbor *lexbor = page->lexbor;
    size_t depth = ground, hiding = 0;
    Node *node = root;
    for (;;) {
        const struct tag *tag = tag_of(page, node);
        if (tag->role == TEXT) {
            if (!hiding) {
                size_t length = 0;
                const unsigned char *text = lexbor->text_content(node, &length);
                if (text != NULL)
                    add(pieces, text, length);
            }
        } else {
            if (tag->role == BLOCK || tag->role == HEADING)
                add_break(pieces, gathers);
            else if (tag->role == CELL)
                add(pieces, " ", 1);
            if (gathers && tag->role > CELL)
                gather(page, node, tag, depth);
            Node *child = lexbor->first_child(node);
            if (child != NULL) {
                size_t length;
                if (!open_parent(page, node, depth++))
                    return 0;
                if (!hiding && (tag->hiding || (gathers && ATTRIBUTE(node, "hidden", &length) != NULL)))
                    hiding = depth;
                node = child;
                continue;
            }
        }
        Node *following = NULL;
        if (!gathers && pieces->length > MOST_TEXT)
            return 1;
        while (depth > ground && (following = lexbor->next(node)) == NULL) {
            node = page->parents[--depth];
            if (hiding > depth)
                hiding = 0;
            if (tag_of(page, node)->breaking)
                add_break(pieces, gathers);
        }
        if (following == NULL)
            return !pieces->broken;
        node = following;
    }
}

/* The text inside an element as a reader sees it, on one line, as one field. */
static void add_visible(struct page *page, Node *node, struct buffer *to, size_t ground)
{
    page->piece.length = 0;
    if (!pass(page, node, &page->piece, 0, ground))
        to->broken = 1;
    size_t length = page->piece.length;
    if (length > MOST_TEXT)
        for (length = MOST_TEXT; length && (page->piece.data[length] & 0xc0) == 0x80;)
            length--; /* no part of a character */
    add_words(to, page->piece.data, length);
}

/* The alternative text of the first picture inside an element. */
static void add_picture(struct page *page, Node *root, struct buffer *to)
{
    const struct lexbor *lexbor = page->lexbor;
    Node *node = root;
    for (;;) {
        Node *following = lexbor->first_child(node);
        while (following == NULL) {
            if (node == root)
                return;
            following = lexbor->next(node);
            if (following == NULL)
                node = lexbor->parent(node);
        }
        node = following;
        size_t length;
        const unsigned char *alt;
        if (is_tag(page, node, "img") && (alt = ATTRIBUTE(node, "alt", &length)) != NULL) {
            add_words(to, alt, length);
            return;
        }
    }
}

static void gather_anchor(struct page *page, Node *node, size_t ground)
{
    size_t length, rel_length;
    const unsigned char *href = ATTRIBUTE(node, "href", &length);
    if (href == NULL)
        href = ATTRIBUTE(node, "xlink:href", &length);
    if (href == NULL || (length && *href == '#' && page->has_place))
        return;
    page->has_place |= length && *href == '#'; /* a base element may make another page of it */
    struct buffer *to = &page->references;
    add(to, "a", 2);
    add(to, href, length);
    end_field(to);
    const unsigned char *rel = ATTRIBUTE(node, "rel", &rel_length);
    add(to, rel, rel_length);
    end_field(to);
    size_t before = to->length;
    add_visible(page, node, to, ground);
    if (to->length == before)
        add_picture(page, node, to);
    end_field(to);
}

static void gather_references(struct page *page, Node *node, const struct tag *tag)
{
    struct buffer *to = &page->references;
    size_t rel_length, title_length, length;
    const unsigned char *rel = ATTRIBUTE(node, "rel", &rel_length);
    const unsigned char *title = ATTRIBUTE(node, "alt", &title_length);
    if (title == NULL || !title_length)
        title = ATTRIBUTE(node, "title", &title_length);
    for (const char *name = tag->addresses; *name;) {
        size_t name_length = strchr(name, ' ') - name;
        const unsigned char *value = attribute(page->lexbor, node, name, name_length, &length);
        if (value != NULL && length) {
            int is_set = name_length >= 6 && memcmp(name + name_length - 6, "srcset", 6) == 0;
            add(to, tag->name, strlen(tag->name));
            if (is_set)
                add(to, "*", 1); /* several addresses: html.py takes them apart */
            page->counts[3] += is_set;
            end_field(to);
            add(to, value, length);
            end_field(to);
            add(to, rel, rel_length);
            end_field(to);
            add_words(to, title, title_length);
            end_field(to);
        }
        name += name_length + 1;
    }
}

static void gather_meta(struct page *page, Node *node)
{
    size_t length, name_length;
    const unsigned char *content = ATTRIBUTE(node, "content", &length);
    if (content == NULL)
        return;
    const unsigned char *name = ATTRIBUTE(node, "name", &name_length);
    if (!name_length)
        name = ATTRIBUTE(node, "property", &name_length);
    if (name_length) {
        add(&page->metas, name, name_length);
        end_field(&page->metas);
        add_words(&page->metas, content, length);
        end_field(&page->metas);
        page->counts[0]++;
    }
    const unsigned char *equivalent = ATTRIBUTE(node, "http-equiv", &name_length);
    if (name_length) {
        add(&page->equivalents, equivalent, name_length);
        end_field(&page->equivalents);
        add(&page->equivalents, content, length);
        end_field(&page->equivalents);
        page->counts[1]++;
    }
}

static void gather_title(struct page *page, Node *node)
{
    if (page->has_title)
        return;
    for (Node *parent = page->lexbor->parent(node); parent != NULL; parent = page->lexbor->parent(parent))
        if (is_tag(page, parent, "svg"))
            return;
    size_t length = 0;
    const unsigned char *text = page->lexbor->text_content(node, &length);
    if (text != NULL)
        add_words(&page->title, text, length);
    page->has_title = 1;
}

static void gather(struct page *page, Node *node, const struct tag *tag, size_t ground)
{
    size_t length;
    const unsigned char *value;
    char level;
    switch (tag->role) {
    case HEADING:
        level = '0' + tag->level;
        add(&page->headings, &level, 1);
        end_field(&page->headings);
        add_visible(page, node, &page->headings, ground);
        end_field(&page->headings);
        page->counts[2]++;
        break;
    case ANCHOR:
        gather_anchor(page, node, ground);
        break;
    case REFERRING:
        gather_references(page, node, tag);
        break;
    case BASE:
        value = ATTRIBUTE(node, "href", &length);
        if (!page->has_base && value != NULL) {
            add(&page->base, value, length);
            page->has_base = 1;
        }
        break;
    case META:
        gather_meta(page, node);
        break;
    case TITLE:
        gather_title(page, node);
        break;
    }
}

static void add_number(struct buffer *buffer, size_t number)
{
    char digits[24];
    int at = sizeof digits;
    do
        digits[--at] = '0' + number % 10;
    while (number /= 10);
    add(buffer, digits + at, sizeof digits - at);
    end_field(buffer);
}

static int put_together(struct page *page, Node *root, struct buffer *out)
{
    size_t length;
    for (int i = 0; i < 4; i++)
        add_number(out, page->counts[i]);
    const unsigned char *language = ATTRIBUTE(root, "lang", &length);
    if (language == NULL || !length)
        language = ATTRIBUTE(root, "xml:lang", &length);
    add(out, language, length);
    end_field(out);
    struct buffer *optional[] = {&page->title, &page->base};
    int is_there[] = {page->has_title, page->has_base};
    for (int i = 0; i < 2; i++) {
        add(out, "+", is_there[i] ? 1 : 0);
        add(out, optional[i]->data, optional[i]->length);
        end_field(out);
    }
    struct buffer *lists[] = {&page->metas, &page->equivalents, &page->headings, &page->references};
    int broken = page->pieces.broken | page->title.broken | page->base.broken;
    for (int i = 0; i < 4; i++) {
        add(out, lists[i]->data, lists[i]->length);
        broken |= lists[i]->broken;
    }
    add_paragraphs(&page->text, page);
    return !(broken | out->broken | page->piece.broken | page->line.broken | page->text.broken | page->bare.broken);
}

static void empty(struct buffer *buffer)
{
    if (buffer->room > KEPT_ROOM || buffer->broken) {
        free(buffer->data);
        buffer->data = NULL;
        buffer->room = 0;
        buffer->broken = 0;
    }
    buffer->length = 0;
}

static void start(struct page *page)
{
    struct buffer *all[] = {&page->pieces, &page->text, &page->bare, &page->metas, &page->equivalents,
                            &page->headings, &page->references, &page->piece, &page->line, &page->title,
                            &page->base, &page->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        empty(all[i]);
    memset(page->counts, 0, sizeof page->counts);
    page->has_title = page->has_base = page->has_place = 0;
    page->words = 0;
}

/* What was read of a page; it lasts until the next. */
struct found {
    const unsigned char *fields, *text, *bare;
    size_t fields_length, text_length, bare_length;
    size_t words;
};

/* From when on a page needs the closer look of nesting.py, whose numbers these are. */
struct bounds {
    size_t harmless_tags, stretch_bytes, copies, depth;
};

/* Whether elements may nest too deep in a source, told by counts as nesting.py does. A NUL follows the source. */
static int may_nest(const unsigned char *source, size_t length, const struct bounds *bounds)
{
    size_t tags = 0;
    ptrdiff_t opened = 0, most_opened = 0;
    for (size_t start = 0; start < length; start += bounds->stretch_bytes) {
        size_t end = length - start < bounds->stretch_bytes ? length : start + bounds->stretch_bytes;
        unsigned short starts = 0, ends = 0; /* a stretch has fewer than 65,536 bytes; so narrow they are counted at once */
        for (size_t i = start; i < end; i++) {
            starts += source[i] == '<';
            ends += (source[i] == '<') & (source[i + 1] == '/'); /* no branch */
        }
        tags += starts;
        opened += (ptrdiff_t)starts - 2 * (ptrdiff_t)ends;
        if (opened > most_opened)
            most_opened = opened;
    }
    if (tags <= bounds->harmless_tags)
        return 0;
    size_t most = bounds->copies / tags < bounds->depth ? bounds->copies / tags : bounds->depth;
    return (size_t)most_opened > most;
}

/* Read a page; 0 where there is no memory for it, -1 where it may nest beyond `bounds` (NULL: none) and was not read.
 *
 * The fields: how many metas, equivalents, headings and sets of references there are; language; title and base, each
 * with "+" before it where it is there; metas (name, content), equivalents (name, content), headings (level, text),
 * references (kind, href, rel, text). */
int read_page(const struct lexbor *lexbor, const struct tag *tags, const unsigned char *source, size_t length,
              unsigned options, const struct bounds *bounds, struct found *found)
{
    static struct page page;
    if (bounds != NULL && may_nest(source, length, bounds))
        return -1;
    start(&page);
    page.lexbor = lexbor;
    page.tags = tags;
    Node *document = lexbor->document_create();
    int done = 0;
    if (document != NULL) {
        lexbor->document_options(document, options);
        if (lexbor->document_parse(document, source, length) == 0) {
            Node *root = lexbor->first_child(document);
            while (root != NULL && lexbor->type(root) != ELEMENT_NODE)
                root = lexbor->next(root);
            done = root != NULL && pass(&page, root, &page.pieces, 1, 0) && put_together(&page, root, &page.out);
        }
        lexbor->document_destroy(document);
    }
    *found = (struct found){page.out.data,   page.text.data,   page.bare.data, page.out.length,
                            page.text.length, page.bare.length, page.words};
    return done;
}
