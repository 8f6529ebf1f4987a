-- name: find_parked
select
    convert(parked.event_id using utf8mb4), convert(parked.source using utf8mb4),
    convert(parked.aggregatetype using utf8mb4), convert(parked.aggregateid using utf8mb4), parked.sequence
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{parked}` as parked
    on parked.consumer = convert(:consumer using utf8mb4) and parked.event_id = wanted.event_id;

-- name: add
-- Not `insert ignore`, which would ignore more than what is parked already. What has no number comes after all that waits
-- there already.
insert into `{parked}` (
    consumer, source, aggregatetype, aggregateid, event_id, type, sequence, turn, state, reason, blocks, error, attempts,
    retry_at, topic, `partition`, `offset`, timestamp_ms, `key`, value, headers, bytes
)
select
    convert(:consumer using utf8mb4), convert(:source using utf8mb4), convert(:aggregate_type using utf8mb4),
    convert(:aggregate_id using utf8mb4), convert(:event_id using utf8mb4), :type, :sequence,
    coalesce(
        :sequence,
        (
            select max(before_it.turn)
            from `{parked}` as before_it
            where before_it.consumer = convert(:consumer using utf8mb4)
                and before_it.source = convert(:source using utf8mb4)
                and before_it.aggregatetype = convert(:aggregate_type using utf8mb4)
                and before_it.aggregateid = convert(:aggregate_id using utf8mb4)
                and before_it.blocks = true
        ),
        0
    ),
    :state, :reason, :blocks, :error, :attempts,
    utc_timestamp(6) + interval round(:retry_seconds * 1000000) microsecond, convert(:topic using utf8mb4), :partition,
    :offset, :timestamp_ms, :key, :value, :headers, :bytes
on duplicate key update `{parked}`.parked_id = `{parked}`.parked_id;

-- name: remove
delete parked
from json_table(convert(:rows using utf8mb4), '$[*]' columns (parked_id bigint path '$.parked_ids')) as wanted
straight_join `{parked}` as parked on parked.parked_id = wanted.parked_id
where parked.consumer = convert(:consumer using utf8mb4);

-- name: fail
update `{parked}`
set state = :state, reason = :reason, blocks = :blocks, error = :error, attempts = :attempts,
    forced = forced and :state = 'waiting', tried_at = utc_timestamp(6),
    retry_at = utc_timestamp(6) + interval round(:retry_seconds * 1000000) microsecond
where consumer = convert(:consumer using utf8mb4) and parked_id = :parked_id;

-- name: rest
update json_table(convert(:rows using utf8mb4), '$[*]' columns (parked_id bigint path '$.parked_ids')) as wanted
straight_join `{parked}` as parked on parked.parked_id = wanted.parked_id
set parked.retry_at = null
where parked.consumer = convert(:consumer using utf8mb4);

-- name: wake
-- Where a successor is named, nothing later can be next, and what is before it contradicts what was applied; where
-- none is, the first one parked. Nobody else changes what is parked of these aggregates: the lock on their watermarks is
-- held.
select parked.parked_id
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    successor bigint path '$.successors'
)) as moved
straight_join `{parked}` as parked
    on parked.consumer = convert(:consumer using utf8mb4)
    and parked.source = moved.source
    and parked.aggregatetype = moved.aggregatetype
    and parked.aggregateid = moved.aggregateid
where parked.state = 'waiting'
    and parked.blocks
    and parked.retry_at is null
    and (
        parked.sequence <= moved.successor
        or moved.successor is null and parked.parked_id = (
            select min(head.parked_id)
            from `{parked}` as head
            where head.consumer = parked.consumer
                and head.source = parked.source
                and head.aggregatetype = parked.aggregatetype
                and head.aggregateid = parked.aggregateid
                and head.blocks
        )
    );
-- then
-- A table that is changed may be read beside that only where the reading comes first, as `distinct` makes it.
update (
    select distinct parked.parked_id
    from json_table(convert(:rows using utf8mb4), '$[*]' columns (
        source varchar(500) character set utf8mb4 path '$.sources',
        aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
        aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
        successor bigint path '$.successors'
    )) as moved
    straight_join `{parked}` as parked
        on parked.consumer = convert(:consumer using utf8mb4)
        and parked.source = moved.source
        and parked.aggregatetype = moved.aggregatetype
        and parked.aggregateid = moved.aggregateid
    where parked.state = 'waiting'
        and parked.blocks
        and parked.retry_at is null
        and (
            parked.sequence <= moved.successor
            or moved.successor is null and parked.parked_id = (
                select min(head.parked_id)
                from `{parked}` as head
                where head.consumer = parked.consumer
                    and head.source = parked.source
                    and head.aggregatetype = parked.aggregatetype
                    and head.aggregateid = parked.aggregateid
                    and head.blocks
            )
        )
) as woken
straight_join `{parked}` as parked on parked.parked_id = woken.parked_id
set parked.retry_at = utc_timestamp(6);

-- name: find_due
-- As many as are looked at in one go, however many there are.
select
    due.parked_id, convert(due.source using utf8mb4), convert(due.aggregatetype using utf8mb4),
    convert(due.aggregateid using utf8mb4), due.blocks, due.bytes
from `{parked}` as due
where due.consumer = convert(:consumer using utf8mb4)
    and due.state = 'waiting'
    and due.retry_at <= utc_timestamp(6)
    and json_contains(
        convert(:rows using utf8mb4),
        json_object('topics', convert(due.topic using utf8mb4), 'partitions', due.`partition`)
    )
order by due.retry_at, due.parked_id
limit :limit;

-- name: find_chains
-- Of each aggregate what was parked first, in the order in which it is applied. There is no limit for each aggregate in
-- one statement: what follows is looked up from one event to the next.
with recursive wanted as (
    select asked.*
    from json_table(convert(:rows using utf8mb4), '$[*]' columns (
        number for ordinality,
        source varchar(500) character set utf8mb4 path '$.sources',
        aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
        aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
    )) as asked
),
found as (
    select
        wanted.number as chain,
        (
            select waiting.parked_id
            from `{parked}` as waiting
            where waiting.consumer = convert(:consumer using utf8mb4)
                and waiting.source = wanted.source
                and waiting.aggregatetype = wanted.aggregatetype
                and waiting.aggregateid = wanted.aggregateid
                and waiting.blocks = true
            order by waiting.turn, waiting.parked_id
            limit 1
        ) as parked_id,
        1 as number
    from wanted
    union all
    select
        found.chain,
        (
            select waiting.parked_id
            from `{parked}` as waiting
            where waiting.consumer = before_it.consumer
                and waiting.source = before_it.source
                and waiting.aggregatetype = before_it.aggregatetype
                and waiting.aggregateid = before_it.aggregateid
                and waiting.blocks = true
                and (waiting.turn, waiting.parked_id) > (before_it.turn, before_it.parked_id)
            order by waiting.turn, waiting.parked_id
            limit 1
        ),
        found.number + 1
    from found
    join `{parked}` as before_it on before_it.parked_id = found.parked_id
    where found.number < :share
)
select found.chain, parked.parked_id, parked.bytes
from found
straight_join `{parked}` as parked on parked.parked_id = found.parked_id
order by found.chain, found.number;

-- name: read
select
    parked.parked_id, convert(parked.event_id using utf8mb4), parked.state, parked.reason, parked.blocks, parked.forced,
    parked.attempts, convert(parked.topic using utf8mb4), parked.`partition`, parked.`offset`, parked.timestamp_ms,
    parked.`key`, parked.value, parked.headers,
    coalesce(parked.state = 'waiting' and parked.retry_at <= utc_timestamp(6), false),
    convert(parked.source using utf8mb4), convert(parked.aggregatetype using utf8mb4),
    convert(parked.aggregateid using utf8mb4)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (parked_id bigint path '$.parked_ids')) as wanted
straight_join `{parked}` as parked on parked.parked_id = wanted.parked_id
where parked.consumer = convert(:consumer using utf8mb4)
order by parked.source, parked.aggregatetype, parked.aggregateid, parked.turn, parked.parked_id;

-- name: find_partitions
select distinct convert(topic using utf8mb4), `partition`
from `{parked}`
where consumer = convert(:consumer using utf8mb4) and state = 'waiting';

-- name: count
-- Aggregates whose first parked event waits for one that is missing; what waits behind a failed one does not, nor what
-- is due.
with missing as (
    select source, aggregatetype, aggregateid
    from `{parked}`
    where consumer = convert(:consumer using utf8mb4) and blocks
    group by source, aggregatetype, aggregateid
    having min(sequence) = min(case when reason = 'gap' and retry_at is null then sequence end)
)
select
    parked.state, parked.reason, count(*), sum(parked.bytes), count(missing.source),
    max(case when missing.source is not null then timestampdiff(microsecond, parked.parked_at, utc_timestamp(6)) end)
        / 1000000
from `{parked}` as parked
left join missing
    on parked.blocks
    and missing.source = parked.source
    and missing.aggregatetype = parked.aggregatetype
    and missing.aggregateid = parked.aggregateid
where parked.consumer = convert(:consumer using utf8mb4)
group by parked.state, parked.reason;
