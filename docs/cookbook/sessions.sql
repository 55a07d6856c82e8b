-- The visits of each user: clicks that are less than 30 minutes apart.
--
-- Trap: a session is published when the watermark is past its last click by the gap, so 30 minutes plus the delay of the
-- watermark after that click, in the time of the clicks. If no clicks come, event time stands still, and so does the session.
SET 'name' = 'sessions';

CREATE SOURCE clicks (user STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 MINUTES)
WITH ('format' = 'json', 'path' = 'data/clicks');

CREATE VIEW visits AS
SELECT user, session_window.start AS began, count(*) AS clicks
FROM clicks GROUP BY user, session_window(at, '30 minutes');

CREATE SINK report WITH ('format' = 'parquet', 'path' = 'output/visits');
INSERT INTO report SELECT * FROM visits;
