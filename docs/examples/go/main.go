// Command example stores two colours and prints the nearest one: go run . ADDRESS KEY
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pb "example/vectordb"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: example ADDRESS KEY")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(address, key string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := pb.NewVectorDBClient(connection)
	// When the deadline passes, the service stops working on a call.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Every call carries the key. Those about points can name a collection.
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", key)
	if _, err := client.PutCollection(ctx, &pb.PutCollectionRequest{Name: "colours"}); err != nil {
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "collection", "colours")
	// With a key of its own, an insert can be sent again after a broken connection: it is stored once.
	keyed := metadata.AppendToOutgoingContext(ctx, "idempotency-key", "colours-1")
	batch := &pb.InsertVectorsBatchRequest{Vectors: []*pb.InsertVectorRequest{
		point("tomato", 255, 99, 71),
		point("navy", 0, 0, 128),
	}}
	if _, err := client.InsertVectorsBatch(keyed, batch); err != nil {
		return err
	}
	found, err := client.SearchPoints(ctx, &pb.SearchRequest{
		QueryVector: &pb.DenseVector{Values: []float32{139, 54, 39}},
		Similarity:  pb.Similarity_Euclidean,
		Limit:       1,
		Include:     &pb.Include{Distance: true, Payload: true},
	})
	if err != nil {
		return err
	}
	for _, hit := range found.Hits {
		fmt.Printf("%s %.2f\n", hit.Payload.Content, hit.GetDistance())
	}
	return nil
}

func point(content string, values ...float32) *pb.InsertVectorRequest {
	return &pb.InsertVectorRequest{
		Vector:  &pb.DenseVector{Values: values},
		Payload: &pb.Payload{ContentType: pb.ContentType_Text, Content: content},
	}
}
