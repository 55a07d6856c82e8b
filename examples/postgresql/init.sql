-- Run once, as the superuser, when the server's volume is empty. The password is taken from the environment.
\getenv password WRITER_PASSWORD
CREATE ROLE writer LOGIN PASSWORD :'password';

-- Rows that no checkpoint covers yet, and the record of what was committed.
CREATE SCHEMA streamjob AUTHORIZATION writer;

CREATE TABLE public.minutes (
  sensor text,
  minute timestamp with time zone,
  readings bigint NOT NULL,
  highest bigint NOT NULL,
  PRIMARY KEY (sensor, minute)
);
GRANT SELECT, INSERT, UPDATE ON public.minutes TO writer;
