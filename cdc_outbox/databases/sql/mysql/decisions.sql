-- name: limit_locks
-- Who holds a watermark's lock may be a handler at work; behind who waits for it, the next event of the aggregate waits.
set session innodb_lock_wait_timeout = 5;

-- name: is_known
select
    exists (select 1 from `{epochs}` where consumer = convert(:consumer using utf8mb4))
    or exists (select 1 from `{parked}` where consumer = convert(:consumer using utf8mb4))
    or exists (select 1 from `{watermarks}` where consumer = convert(:consumer using utf8mb4))
    or exists (select 1 from `{inbox}` where consumer = convert(:consumer using utf8mb4));

-- name: consumers
select convert(consumer using utf8mb4) from `{epochs}`
union
select convert(consumer using utf8mb4) from `{parked}`
order by 1;

-- name: find
select
    parked_id, state, reason, convert(source using utf8mb4), convert(aggregatetype using utf8mb4),
    convert(aggregateid using utf8mb4), convert(event_id using utf8mb4), type, sequence, blocks, forced, attempts,
    coalesce(error, ''), timestampdiff(microsecond, '1970-01-01', parked_at) / 1000000,
    timestampdiff(microsecond, '1970-01-01', tried_at) / 1000000,
    timestampdiff(microsecond, '1970-01-01', retry_at) / 1000000,
    convert(topic using utf8mb4), `partition`, `offset`, turn, count(*) over ()
from `{parked}`
where consumer = convert(:consumer using utf8mb4)
    and (
        :rows is null
        or parked_id in (
            select wanted.parked_id
            from json_table(convert(:rows using utf8mb4), '$[*]' columns (parked_id bigint path '$.parked_ids')) as wanted
        )
    )
    and (:state is null or state = :state)
    and (:reason is null or reason = :reason)
    and (:source is null or source = convert(:source using utf8mb4))
    and (:aggregate_type is null or aggregatetype = convert(:aggregate_type using utf8mb4))
    and (:aggregate_id is null or aggregateid = convert(:aggregate_id using utf8mb4))
    and parked_id > :after
order by parked_id
limit :limit;

-- name: read_messages
select parked.parked_id, parked.timestamp_ms, parked.`key`, parked.value, parked.headers
from json_table(convert(:rows using utf8mb4), '$[*]' columns (parked_id bigint path '$.parked_ids')) as wanted
straight_join `{parked}` as parked on parked.parked_id = wanted.parked_id
where parked.consumer = convert(:consumer using utf8mb4);

-- name: retry
-- What was dead begins anew, with all its attempts: they come first, for each assignment sees those before it.
update json_table(convert(:rows using utf8mb4), '$[*]' columns (
    parked_id bigint path '$.parked_ids',
    forced int path '$.forced'
)) as wanted
straight_join `{parked}` as parked on parked.parked_id = wanted.parked_id
set parked.attempts = case parked.state when 'dead' then 0 else parked.attempts end,
    parked.state = 'waiting', parked.retry_at = utc_timestamp(6), parked.forced = parked.forced or wanted.forced
where parked.consumer = convert(:consumer using utf8mb4);

-- name: note_holes
insert into `{holes}` (consumer, source, aggregatetype, aggregateid, first, last, reason, event_id, note)
select
    convert(:consumer using utf8mb4), hole.source, hole.aggregatetype, hole.aggregateid, hole.first, hole.last, :reason,
    hole.event_id, :note
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    first bigint path '$.firsts',
    last bigint path '$.lasts',
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as hole;

-- name: find_gaps
-- Where sequences have no gaps, what fails or waits behind it stands right after the watermark, and a gap does not.
select
    convert(parked.source using utf8mb4), convert(parked.aggregatetype using utf8mb4),
    convert(parked.aggregateid using utf8mb4), mark.last, min(parked.sequence), count(*)
from `{parked}` as parked
join `{watermarks}` as mark
    on mark.consumer = parked.consumer
    and mark.source = parked.source
    and mark.aggregatetype = parked.aggregatetype
    and mark.aggregateid = parked.aggregateid
where parked.consumer = convert(:consumer using utf8mb4)
    and parked.blocks
    and parked.sequence > mark.last
    and (
        :rows is null
        or exists (
            select 1
            from json_table(convert(:rows using utf8mb4), '$[*]' columns (
                source varchar(500) character set utf8mb4 path '$.sources',
                aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
                aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
            )) as wanted
            where wanted.source = parked.source
                and wanted.aggregatetype = parked.aggregatetype
                and wanted.aggregateid = parked.aggregateid
        )
    )
group by parked.source, parked.aggregatetype, parked.aggregateid, mark.last
having min(parked.sequence) > mark.last + 1
    and min(parked.sequence) = min(case when parked.reason = 'gap' then parked.sequence end)
order by parked.source, parked.aggregatetype, parked.aggregateid;

-- name: count_unreadable
select count(*) from `{parked}` where consumer = convert(:consumer using utf8mb4) and reason = 'unreadable';
