-- name: delete
delete from {outbox}
where {id} = :id
