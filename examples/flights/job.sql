-- Departures per airport and hour, with the weather that they met. `job.yaml` and `job.py` are the same job.
SET 'name' = 'flights';
SET 'parallelism' = 2;
SET 'checkpointing.interval' = '2s';

CREATE SOURCE flights (
  origin STRING, carrier STRING, flight INT, tailnum STRING, dest STRING,
  scheduled TIMESTAMP, dep_delay INT, arr_delay INT, distance INT,
  -- The latest flight left 21 h 41 min behind its schedule.
  WATERMARK FOR scheduled AS scheduled - INTERVAL 24 HOURS
) WITH (
  'format' = 'csv',
  'bounded' = true,
  'path' = 'data/flights',
  'header' = true,
  'maxFilesPerTrigger' = 6
);

CREATE SOURCE weather (
  origin STRING, observed TIMESTAMP,
  temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE,
  WATERMARK FOR observed AS observed - INTERVAL 1 HOUR
) WITH (
  'format' = 'json',
  'bounded' = true,
  'path' = 'data/weather',
  'maxFilesPerTrigger' = 6
);

-- The equality on the hour finds the match, the range on the event times tells Spark when a row can go.
CREATE VIEW departures AS
SELECT f.origin, f.scheduled, f.dep_delay, w.temp, w.wind_speed, w.precip, w.visib
FROM flights f LEFT JOIN weather w
  ON f.origin = w.origin
  AND date_trunc('HOUR', f.scheduled) = date_trunc('HOUR', w.observed)
  AND w.observed <= f.scheduled
  AND w.observed > f.scheduled - INTERVAL 1 HOUR;

CREATE VIEW hours AS
SELECT
  origin AS airport,
  window.start AS hour,
  count(*) AS flights,
  count_if(dep_delay IS NULL) AS cancelled,
  count_if(dep_delay > 15) AS delayed,
  avg(dep_delay) AS average_delay,
  max(dep_delay) AS longest_delay,
  max(temp) AS temperature,
  max(wind_speed) AS wind_speed,
  max(precip) AS precipitation,
  max(visib) AS visibility
FROM departures
GROUP BY origin, window(scheduled, '1 hour');

CREATE SINK report WITH (
  'format' = 'parquet',
  'path' = 'output',
  'delivery' = 'exactly-once'
);
INSERT INTO report SELECT * FROM hours;
