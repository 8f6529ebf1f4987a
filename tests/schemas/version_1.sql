-- What version 1 of outbox and inbox was: pg_dump of a database that the first release made and wrote to.
CREATE TABLE public.cdc_outbox_version (
    component text NOT NULL COLLATE pg_catalog."C",
    version integer NOT NULL,
    upgraded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT cdc_outbox_version_version_check CHECK ((version > 0))
);
CREATE TABLE public.inbox (
    consumer text NOT NULL COLLATE pg_catalog."C",
    event_id text NOT NULL COLLATE pg_catalog."C",
    claimed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
)
PARTITION BY RANGE (event_id);
CREATE TABLE public.inbox_rest (
    consumer text CONSTRAINT inbox_consumer_not_null NOT NULL COLLATE pg_catalog."C",
    event_id text CONSTRAINT inbox_event_id_not_null NOT NULL COLLATE pg_catalog."C",
    claimed_at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT inbox_claimed_at_not_null NOT NULL
);
CREATE TABLE public.inbox_watermarks (
    consumer text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    aggregatetype text NOT NULL COLLATE pg_catalog."C",
    aggregateid text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT inbox_watermarks_last_check CHECK ((last > 0))
);
CREATE TABLE public.outbox (
    id uuid NOT NULL,
    aggregatetype text NOT NULL,
    aggregateid text NOT NULL,
    type text NOT NULL,
    payload json,
    sequence bigint,
    source text DEFAULT 'orders.1'::text NOT NULL,
    traceparent text,
    tracestate text,
    created_at timestamp(6) without time zone DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'::text) NOT NULL
);
CREATE TABLE public.outbox_heads (
    source text DEFAULT 'orders.1'::text NOT NULL COLLATE pg_catalog."C",
    aggregatetype text NOT NULL COLLATE pg_catalog."C",
    aggregateid text NOT NULL COLLATE pg_catalog."C",
    last bigint NOT NULL,
    CONSTRAINT outbox_heads_last_check CHECK ((last > 0))
);
ALTER TABLE ONLY public.inbox ATTACH PARTITION public.inbox_rest DEFAULT;
INSERT INTO public.cdc_outbox_version VALUES ('outbox public.outbox', 1, '2026-11-21 11:34:44.590647+00');
INSERT INTO public.cdc_outbox_version VALUES ('inbox public.inbox', 1, '2026-11-21 11:34:44.595681+00');
INSERT INTO public.outbox VALUES ('01a1fde3-2757-7ff4-9746-05b2befd6070', 'customer', '42', 'OrderPlaced', '{"n":0}', 1, 'orders.1', NULL, NULL, '2026-11-21 11:34:44.827361');
INSERT INTO public.outbox VALUES ('01a1fde3-275b-7cd7-8c8a-093459f78430', 'customer', '42', 'OrderPlaced', '{"n":1}', 2, 'orders.1', NULL, NULL, '2026-11-21 11:34:44.828406');
INSERT INTO public.outbox VALUES ('01a1fde3-275c-7a4f-970d-319b704908c4', 'customer', '42', 'OrderPlaced', '{"n":2}', 3, 'orders.1', NULL, NULL, '2026-11-21 11:34:44.8304');
INSERT INTO public.outbox_heads VALUES ('orders.1', 'customer', '42', 3);
ALTER TABLE ONLY public.cdc_outbox_version
    ADD CONSTRAINT cdc_outbox_version_pkey PRIMARY KEY (component);
ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (consumer, event_id);
ALTER TABLE ONLY public.inbox_rest
    ADD CONSTRAINT inbox_rest_pkey PRIMARY KEY (consumer, event_id);
ALTER TABLE ONLY public.inbox_watermarks
    ADD CONSTRAINT inbox_watermarks_pkey PRIMARY KEY (consumer, source, aggregatetype, aggregateid);
ALTER TABLE ONLY public.outbox_heads
    ADD CONSTRAINT outbox_heads_pkey PRIMARY KEY (source, aggregatetype, aggregateid);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);
ALTER INDEX public.inbox_pkey ATTACH PARTITION public.inbox_rest_pkey;
CREATE PUBLICATION orders_outbox WITH (publish = 'insert');
ALTER PUBLICATION orders_outbox ADD TABLE ONLY public.outbox;
