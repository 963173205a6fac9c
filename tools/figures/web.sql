-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of the web shop (tools/figures/web.sh), for `postgres --single -j`: a blank line ends a statement.
CREATE TABLE item AS SELECT i AS id, md5(i::text) || ' ' || i AS title, 'author ' || i % 2500 AS author,
	i % 24 AS subject, now() - i * interval '1 hour' AS published, i % 100 + 1 AS cost, 1000000 AS stock
	FROM generate_series(1, 100000) i;

CREATE UNIQUE INDEX ON item (id);

CREATE INDEX ON item (subject, published DESC);

CREATE INDEX ON item (title text_pattern_ops);

CREATE TABLE customer AS SELECT i AS id, 'customer ' || i AS name FROM generate_series(1, 10000) i;

CREATE UNIQUE INDEX ON customer (id);

CREATE TABLE orders (id serial PRIMARY KEY, customer int, placed timestamptz DEFAULT now());

INSERT INTO orders (customer) SELECT i FROM generate_series(1, 10000) i;

CREATE INDEX ON orders (customer);

CREATE TABLE order_line AS SELECT i / 3 + 1 AS order_id, (i * 7919) % 100000 + 1 AS item, 1 AS quantity
	FROM generate_series(0, 29999) i;

CREATE INDEX ON order_line (order_id);

CREATE TABLE cart_line (customer int, item int, quantity int, PRIMARY KEY (customer, item));

ANALYZE;

