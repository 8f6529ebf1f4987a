-- For MariaDB from 10.6 and MySQL from 8.0.21. Lists come as one text of JSON, :rows; a text becomes the same bytes
-- whatever character set the connection has. How many rows a statement changed is not asked: under CLIENT_FOUND_ROWS
-- it means another thing. Joins are straight, so that rows are locked in the order of the list.

-- name: claim
-- `ignore` would ignore more than duplicates, so what does not fit is refused before. The savepoint comes last: while
-- it is there, the transaction is still the one of the claims.
insert ignore into `{inbox}` (consumer, event_id, claim_token)
select convert(:consumer using utf8mb4), wanted.event_id, unhex(:transaction)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
order by wanted.place;
-- then
select convert(claimed.event_id using utf8mb4)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{inbox}` as claimed
    on claimed.consumer = convert(:consumer using utf8mb4) and claimed.event_id = wanted.event_id
where claimed.claim_token = unhex(:transaction);
-- then
savepoint cdc_outbox_claims;

-- name: find_claims
select convert(claimed.event_id using utf8mb4)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{inbox}` as claimed
    on claimed.consumer = convert(:consumer using utf8mb4) and claimed.event_id = wanted.event_id;

-- name: identify
savepoint cdc_outbox_claims;
-- then
select :transaction;

-- name: prove
release savepoint cdc_outbox_claims;

-- name: release
delete claimed
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{inbox}` as claimed
    on claimed.consumer = convert(:consumer using utf8mb4) and claimed.event_id = wanted.event_id;

-- name: take_back
select convert(claimed.event_id using utf8mb4)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{inbox}` as claimed
    on claimed.consumer = convert(:consumer using utf8mb4) and claimed.event_id = wanted.event_id
where claimed.claim_token = unhex(:transaction)
for update;
-- then
delete claimed
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{inbox}` as claimed
    on claimed.consumer = convert(:consumer using utf8mb4) and claimed.event_id = wanted.event_id
where claimed.claim_token = unhex(:transaction);

-- name: look
-- Either server has a name of its own for the level.
select
    (
        select timestampdiff(microsecond, '1970-01-01', max(purged_before)) / 1000000
        from `{purges}`
        where consumer = convert(:consumer using utf8mb4)
    ),
    (/*M! @@tx_isolation */ /*!80000 @@transaction_isolation */) = 'READ-COMMITTED';

-- name: find_watermarks
select wanted.place, mark.last, mark.parked
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
)) as wanted
straight_join `{watermarks}` as mark
    on mark.consumer = convert(:consumer using utf8mb4)
    and mark.source = wanted.source
    and mark.aggregatetype = wanted.aggregatetype
    and mark.aggregateid = wanted.aggregateid;

-- name: lock_watermarks
insert into `{watermarks}` (consumer, source, aggregatetype, aggregateid, last)
select convert(:consumer using utf8mb4), wanted.source, wanted.aggregatetype, wanted.aggregateid, 0
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
)) as wanted
order by wanted.place
on duplicate key update updated_at = utc_timestamp(6);
-- then
select
    convert(mark.source using utf8mb4), convert(mark.aggregatetype using utf8mb4),
    convert(mark.aggregateid using utf8mb4), mark.last, mark.parked
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
)) as wanted
straight_join `{watermarks}` as mark
    on mark.consumer = convert(:consumer using utf8mb4)
    and mark.source = wanted.source
    and mark.aggregatetype = wanted.aggregatetype
    and mark.aggregateid = wanted.aggregateid;

-- name: advance
-- Rows that are not there are made and locked; those that are where their move starts are locked and returned; and
-- these, which nobody else can change any more, are moved.
insert into `{watermarks}` (consumer, source, aggregatetype, aggregateid, last)
select convert(:consumer using utf8mb4), moved.source, moved.aggregatetype, moved.aggregateid, 0
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    moved_from bigint path '$.befores'
)) as moved
where moved.moved_from = 0
order by moved.place
on duplicate key update updated_at = utc_timestamp(6);
-- then
select
    convert(mark.source using utf8mb4), convert(mark.aggregatetype using utf8mb4),
    convert(mark.aggregateid using utf8mb4), mark.parked + moved.parked
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    moved_from bigint path '$.befores',
    parked bigint path '$.parked'
)) as moved
straight_join `{watermarks}` as mark
    on mark.consumer = convert(:consumer using utf8mb4)
    and mark.source = moved.source
    and mark.aggregatetype = moved.aggregatetype
    and mark.aggregateid = moved.aggregateid
where mark.last = moved.moved_from
for update;
-- then
update json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    moved_from bigint path '$.befores',
    moved_to bigint path '$.afters',
    parked bigint path '$.parked'
)) as moved
straight_join `{watermarks}` as mark
    on mark.consumer = convert(:consumer using utf8mb4)
    and mark.source = moved.source
    and mark.aggregatetype = moved.aggregatetype
    and mark.aggregateid = moved.aggregateid
set mark.last = moved.moved_to, mark.parked = mark.parked + moved.parked, mark.updated_at = utc_timestamp(6)
where mark.last = moved.moved_from;
