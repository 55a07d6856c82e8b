-- Clicks and the ad impressions before them, and impressions without a click.
--
-- Trap: a join of two streams needs a watermark on both sides and a range of event time between them. Without the range Spark
-- keeps all rows for ever. An impression without a click comes out when the watermark has passed the range, not before.
SET 'name' = 'interval-join';

CREATE SOURCE impressions (ad STRING, shown TIMESTAMP, WATERMARK FOR shown AS shown - INTERVAL 5 MINUTES)
WITH ('format' = 'json', 'path' = 'data/impressions');

CREATE SOURCE clicks (ad STRING, clicked TIMESTAMP, WATERMARK FOR clicked AS clicked - INTERVAL 5 MINUTES)
WITH ('format' = 'json', 'path' = 'data/clicks');

CREATE VIEW matched AS
SELECT i.ad, i.shown, c.clicked
FROM impressions i LEFT JOIN clicks c
  ON i.ad = c.ad AND c.clicked >= i.shown AND c.clicked <= i.shown + INTERVAL 1 HOUR;

CREATE SINK report WITH ('format' = 'parquet', 'path' = 'output/matched');
INSERT INTO report SELECT * FROM matched;
