-- Orders with the product's present name and price: a slowly changing table.
--
-- Trap: plain Spark lists the files of a table when the query starts. Files that are added later are never seen, and a file that
-- is replaced fails the query. A job reads the whole table every ten minutes, beside the batches; a batch sees one version.
-- An order whose batch is computed again after a failure may get the newer price: if that matters, join at event time.
SET 'name' = 'changing-table';

CREATE SOURCE orders (id INT, product STRING, amount INT) WITH ('format' = 'json', 'path' = 'data/orders');

CREATE TABLE products (product STRING, name STRING, price INT) WITH (
  'format' = 'csv',
  'path' = 'data/products',
  'refresh' = '10m',
  'maxAge' = '1h'
);

CREATE VIEW priced AS
SELECT o.id, p.name, o.amount * p.price AS total
FROM orders o LEFT JOIN products p ON o.product = p.product;

CREATE SINK report WITH ('format' = 'parquet', 'path' = 'output/priced');
INSERT INTO report SELECT * FROM priced;
